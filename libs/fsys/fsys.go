// Package fsys is the small door to a local disk: what Frazil's caches and runs need of a file system, on the real
// one and on one in memory that fails on command.
//
// Names are slash-separated paths as the caller gives them. Errors are those of package os: errors.Is with
// fs.ErrNotExist, and ErrNoSpace for a full disk.
package fsys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// ErrNoSpace is what a full disk answers.
const ErrNoSpace = syscall.ENOSPC

// FS is a file system. Safe for concurrent use.
type FS interface {
	// Open opens a file for reading.
	Open(name string) (File, error)
	// Create makes a file, or empties the one that is there, for writing and reading.
	Create(name string) (File, error)
	// Rename replaces newName by oldName at once. It survives a crash once SyncDir of the directory has returned.
	Rename(oldName, newName string) error
	// Remove removes a file. An open one can be read on.
	Remove(name string) error
	// List answers the regular files of a directory, sorted by name.
	List(dir string) ([]Info, error)
	// MakeDir makes a directory and those above it; one that is there is no error.
	MakeDir(dir string) error
	// SyncDir makes the names in a directory survive a crash.
	SyncDir(dir string) error
}

// File is an open file. ReadAt is safe for concurrent use.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	// Sync makes the content survive a crash.
	Sync() error
	// Size is the length in bytes.
	Size() (int64, error)
}

// Info is one file of a directory.
type Info struct {
	Name     string // without the directory
	Size     int64  // bytes
	Modified time.Time
}

// OS is the file system of the machine.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }
func (osFS) Remove(name string) error             { return os.Remove(name) }
func (osFS) MakeDir(dir string) error             { return os.MkdirAll(dir, 0o700) }

func (osFS) List(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		i, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, Info{e.Name(), i.Size(), i.ModTime()})
	}
	return out, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	i, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}

// WriteFile writes a file under a temporary name beside name and renames it. durable makes it survive a crash
// before it returns. What is left behind by a failure or a crash ends in ".tmp".
func WriteFile(fsys FS, dir, name string, durable bool, write func(io.Writer) error) (err error) {
	tmp, final := dir+"/"+name+".tmp", dir+"/"+name
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = fsys.Remove(tmp)
		}
	}()
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	if durable {
		if err := f.Sync(); err != nil {
			_ = f.Close()
			return err
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, final); err != nil {
		return err
	}
	if durable {
		return fsys.SyncDir(dir)
	}
	return nil
}
