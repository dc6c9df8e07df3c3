package catalogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/io/gocloud/blobfs"
)

// An object's key need not be a path: writers that take an unpartitioned spec for one with an empty partition put
// objects under ".../data//", and S3 takes that for another key than ".../data/". iceberg-go 0.7.0 refuses such keys
// (fs.ValidPath), so they are opened here.

// openKey opens an object of S3 whose key iceberg-go has refused. ok is false if that is not what was wrong.
func openKey(files iceio.IO, location string, refused error) (f iceio.File, ok bool, err error) {
	bucket, blobs := files.(*blobfs.FileIO)
	scheme, rest, _ := strings.Cut(location, "://")
	_, key, _ := strings.Cut(rest, "/")
	if !blobs || !errors.Is(refused, fs.ErrInvalid) || key == "" || fs.ValidPath(key) || scheme != "s3" && scheme != "s3a" && scheme != "s3n" {
		return nil, false, nil
	}
	// Store.File has no context to give on, as iceberg-go's own files have none.
	r, err := bucket.NewReader(context.Background(), key, nil)
	if err != nil {
		if there, unknown := bucket.Exists(context.Background(), key); unknown == nil && !there {
			err = fs.ErrNotExist
		}
		return nil, true, fmt.Errorf("open key %s: %w", key, err)
	}
	return &keyFile{reader: r, key: key, at: func(off, n int64) (io.ReadCloser, error) {
		return bucket.NewRangeReader(context.Background(), key, off, n, nil)
	}}, true, nil
}

// reader is what gocloud's reader of an object has.
type reader interface {
	io.ReadSeekCloser
	Size() int64
	ModTime() time.Time
}

// keyFile is an object as an open file.
type keyFile struct {
	reader
	key string
	at  func(off, n int64) (io.ReadCloser, error)
}

// ReadAt implements io.ReaderAt by a request of its own.
func (f *keyFile) ReadAt(p []byte, off int64) (n int, err error) {
	r, err := f.at(off, int64(len(p)))
	if err != nil {
		return 0, fmt.Errorf("read %d bytes at %d: %w", len(p), off, err)
	}
	n, err = io.ReadFull(r, p)
	if closed := r.Close(); err == nil {
		err = closed
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF // as io.ReaderAt has it, not wrapped
	}
	return n, err
}

// Stat implements fs.File.
func (f *keyFile) Stat() (fs.FileInfo, error) { return f, nil }

// Name implements fs.FileInfo.
func (f *keyFile) Name() string { return path.Base(f.key) }

// Mode implements fs.FileInfo.
func (f *keyFile) Mode() fs.FileMode { return fs.ModeIrregular }

// IsDir implements fs.FileInfo.
func (f *keyFile) IsDir() bool { return false }

// Sys implements fs.FileInfo.
func (f *keyFile) Sys() any { return nil }
