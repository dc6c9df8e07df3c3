package objectname

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"
)

// Word is n base32 characters (lower case, no padding) of b, which must hold at least 5n bits.
func Word(b []byte, n int) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))[:n]
}

// Signed is the file with its check set: WordLen characters of an HMAC-SHA-256 over the rest of the key.
func (d DataFile) Signed(key [16]byte) DataFile {
	d.Check = d.check(key)
	return d
}

// Verify reports whether the file's check was made with key. It takes the same time for every check.
func (d DataFile) Verify(key [16]byte) bool {
	return subtle.ConstantTimeCompare([]byte(d.check(key)), []byte(d.Check)) == 1
}

func (d DataFile) check(key [16]byte) string {
	mac := hmac.New(sha256.New, key[:])
	mac.Write([]byte(d.dir() + d.unsigned()))
	return Word(mac.Sum(nil), WordLen)
}
