// Package vend makes and checks the S3 credentials that the catalog hands out. They are stateless: everything
// about them is in the session token, sealed with a key that all edges share, and the secret follows from the
// token, so that any edge checks what another one made, also after a restart.
//
//	access key    = "FZ" + 4 characters of the sealing key's id + 20 characters derived from the token
//	session token = base64url(0x01 + key id + expiry + texts of the scope + HMAC-SHA-256)
//	secret        = base64url(HMAC-SHA-256(key, "fz-s3-secret" + access key + session token))
//
// Expiries lie on a grid of half a lifetime, so that equal loads get equal credentials until the grid moves on.
package vend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const (
	version   = 1
	keyIDLen  = 4
	maxText   = 512     // bytes of one text of the scope
	maxToken  = 4 << 10 // characters of a session token that is looked at
	accessLen = 20
)

// The ways in which credentials are refused.
var (
	// ErrInvalid: not made here, or made with a key that is no longer known.
	ErrInvalid = errors.New("credentials are not valid")
	// ErrUnknownAccessKey: a good session token with an access key that is not its own.
	ErrUnknownAccessKey = errors.New("access key does not belong to the session token")
	// ErrExpired: made here, and over.
	ErrExpired = errors.New("credentials have expired")
)

// Scope is what credentials are good for: reading the objects of one view of one table. Warehouse tells them apart and
// is not checked.
type Scope struct {
	Principal string
	Warehouse string // the dialect
	Namespace string
	Table     string
	// Prefix of object keys, ending in a slash.
	Prefix string
}

// Credentials are what is vended.
type Credentials struct {
	AccessKey    string
	Secret       string
	SessionToken string
	Expires      time.Time
}

// Claims are what a session token says.
type Claims struct {
	Scope
	Expires time.Time
}

// Vendor makes and checks credentials. It is immutable and safe for concurrent use.
type Vendor struct {
	current  sealKey
	keys     map[string]sealKey
	lifetime time.Duration
}

type sealKey struct {
	id     string
	secret []byte
}

// New takes the key that signs and those that only verify still. Lifetime is the longest life of credentials.
func New(key []byte, previous [][]byte, lifetime time.Duration) (*Vendor, error) {
	if len(key) < 16 {
		return nil, fmt.Errorf("vend credentials: key of %d bytes, want at least 16", len(key))
	}
	if lifetime < 2*time.Second {
		return nil, fmt.Errorf("vend credentials: lifetime %v, want at least 2s", lifetime)
	}
	v := &Vendor{current: newKey(key), keys: map[string]sealKey{}, lifetime: lifetime}
	for _, p := range previous {
		k := newKey(p)
		v.keys[k.id] = k
	}
	v.keys[v.current.id] = v.current
	return v, nil
}

func newKey(secret []byte) sealKey {
	sum := sha256.Sum256(append([]byte("fz-key-id\x00"), secret...))
	return sealKey{id: upper32(sum[:])[:keyIDLen], secret: secret}
}

// Epoch numbers the grid step at now. Credentials made in one epoch for one scope are equal, and have at least
// half of their life before them.
func (v *Vendor) Epoch(now time.Time) int64 { return now.UnixMilli() / v.step() }

// expires is the expiry of the credentials of an epoch.
func (v *Vendor) expires(epoch int64) time.Time {
	// Whole seconds: the token holds seconds.
	return time.UnixMilli((epoch + 2) * v.step()).Truncate(time.Second).UTC()
}

func (v *Vendor) step() int64 { return v.lifetime.Milliseconds() / 2 }

// Vend makes the credentials of a scope at now.
func (v *Vendor) Vend(s Scope, now time.Time) (Credentials, error) {
	exp := v.expires(v.Epoch(now))
	body := []byte{version}
	body = append(body, v.current.id...)
	body = binary.BigEndian.AppendUint64(body, uint64(exp.Unix()))
	for _, text := range s.texts() {
		if len(*text) > maxText {
			return Credentials{}, fmt.Errorf("vend credentials: text of %d bytes in the scope, want at most %d", len(*text), maxText)
		}
		body = binary.AppendUvarint(body, uint64(len(*text)))
		body = append(body, *text...)
	}
	body = append(body, v.current.mac("fz-s3-token", string(body))...)
	token := base64.RawURLEncoding.EncodeToString(body)
	access := v.current.access(token)
	return Credentials{AccessKey: access, Secret: v.current.secretOf(access, token), SessionToken: token, Expires: exp}, nil
}

func (s *Scope) texts() []*string {
	return []*string{&s.Principal, &s.Warehouse, &s.Namespace, &s.Table, &s.Prefix}
}

// Verify reads a session token and answers the secret that belongs to it and accessKey. ErrInvalid,
// ErrUnknownAccessKey, ErrExpired.
func (v *Vendor) Verify(accessKey, token string, now time.Time) (secret string, c Claims, err error) {
	if len(token) > maxToken {
		return "", Claims{}, ErrInvalid
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	// One token, one spelling: the decoder skips line ends and takes any padding bits.
	if err != nil || base64.RawURLEncoding.EncodeToString(raw) != token || len(raw) < 1+keyIDLen+8+sha256.Size || raw[0] != version {
		return "", Claims{}, ErrInvalid
	}
	key, ok := v.keys[string(raw[1:1+keyIDLen])]
	if !ok {
		return "", Claims{}, ErrInvalid
	}
	body, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(mac, key.mac("fz-s3-token", string(body))) {
		return "", Claims{}, ErrInvalid
	}
	if !hmac.Equal([]byte(accessKey), []byte(key.access(token))) {
		return "", Claims{}, ErrUnknownAccessKey
	}
	if c, err = parseClaims(body[1+keyIDLen:]); err != nil {
		return "", Claims{}, err
	}
	if !now.Before(c.Expires) {
		return "", Claims{}, ErrExpired
	}
	return key.secretOf(accessKey, token), c, nil
}

func parseClaims(b []byte) (Claims, error) {
	c := Claims{Expires: time.Unix(int64(binary.BigEndian.Uint64(b)), 0).UTC()}
	b = b[8:]
	for _, text := range c.texts() {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > maxText || uint64(len(b)-used) < n {
			return Claims{}, ErrInvalid
		}
		*text = string(b[used : used+int(n)])
		b = b[used+int(n):]
	}
	if len(b) != 0 {
		return Claims{}, ErrInvalid
	}
	return c, nil
}

func (k sealKey) mac(purpose string, parts ...string) []byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write([]byte(purpose))
	for _, p := range parts {
		h.Write([]byte{0})
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

func (k sealKey) access(token string) string {
	return "FZ" + k.id + upper32(k.mac("fz-s3-access", token))[:accessLen]
}

func (k sealKey) secretOf(access, token string) string {
	return base64.RawURLEncoding.EncodeToString(k.mac("fz-s3-secret", access, token))
}

func upper32(b []byte) string {
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)
}
