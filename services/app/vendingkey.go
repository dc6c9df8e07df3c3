package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// vendingKeyBytes is the length of a key that we make.
const vendingKeyBytes = 32

// vendingKey answers the key in path, making it when there is none. Two processes that make one at once agree on
// the one whose link came first.
func vendingKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil {
		if len(key) < vendingKeyBytes {
			return nil, fmt.Errorf("read signing key %s: it has %d bytes, want %d: remove it and a new one is made", path, len(key), vendingKeyBytes)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	if err := makeKey(path); err != nil {
		return nil, fmt.Errorf("make signing key: %w", err)
	}
	return vendingKey(path)
}

// makeKey writes a key beside path, syncs it and links it into place; a key that is there already stays.
func makeKey(path string) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	key := make([]byte, vendingKeyBytes)
	rand.Read(key) // never fails
	if _, err := f.Write(key); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
