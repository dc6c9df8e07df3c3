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

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// An object's key need not be a path: writers that take an unpartitioned spec for one with an empty partition put
// objects under ".../data//", and S3 takes that for another key than ".../data/". iceberg-go 0.7.0 refuses such keys
// (fs.ValidPath), so they are opened here.

// openKey opens an object of S3 whose key iceberg-go has refused. ok is false if that is not what was wrong.
func openKey(files iceio.IO, location string, refused error) (f iceio.File, ok bool, err error) {
	bucket, key, ok := keyOf(files, location)
	if !ok || !errors.Is(refused, fs.ErrInvalid) || fs.ValidPath(key) {
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
	return &keyFile{reader: r, key: key, ranges: func(off, n int64) (io.ReadCloser, error) {
		return bucket.NewRangeReader(context.Background(), key, off, n, nil)
	}}, true, nil
}

// keyOf answers the key of a location in S3. That it is in this bucket, the caller has to make sure.
func keyOf(files iceio.IO, location string) (bucket *blobfs.FileIO, key string, ok bool) {
	bucket, ok = files.(*blobfs.FileIO)
	scheme, rest, _ := strings.Cut(location, "://")
	_, key, _ = strings.Cut(rest, "/")
	return bucket, key, ok && key != "" && (scheme == "s3" || scheme == "s3a" || scheme == "s3n")
}

// openRanges opens an object of S3 of which only the ranges that are read are asked for: iceberg-go begins to download
// the whole of an object that it opens. ok is false if it is another store.
func openRanges(ctx context.Context, files iceio.IO, location string) (f icebergscan.File, ok bool, err error) {
	bucket, key, ok := keyOf(files, location)
	if !ok {
		return nil, false, nil
	}
	info, err := bucket.Stat(location) // refuses other buckets
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist // there is no object, but some whose keys begin like this
	}
	if err != nil {
		return nil, true, err
	}
	return &rangeFile{size: info.Size(), ranges: func(off, n int64) (io.ReadCloser, error) {
		return bucket.NewRangeReader(ctx, key, off, n, nil)
	}}, true, nil
}

// rangeFile is an object that is read at offsets only.
type rangeFile struct {
	ranges
	size int64
}

// Size implements icebergscan.File.
func (f *rangeFile) Size() (int64, error) { return f.size, nil }

// Close implements io.Closer. Every range has been closed by who asked for it.
func (f *rangeFile) Close() error { return nil }

// ranges asks for n bytes of an object at an offset.
type ranges func(off, n int64) (io.ReadCloser, error)

// ReadAt implements io.ReaderAt by a request of its own.
func (at ranges) ReadAt(p []byte, off int64) (n int, err error) {
	r, err := at(off, int64(len(p)))
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

// reader is what gocloud's reader of an object has.
type reader interface {
	io.ReadSeekCloser
	Size() int64
	ModTime() time.Time
}

// keyFile is an object as an open file.
type keyFile struct {
	reader
	ranges
	key string
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
