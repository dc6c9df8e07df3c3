package blobcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
)

// A file, all numbers little-endian (docs/FORMAT.md, "Block cache"):
//
//	 0  "FRZB"
//	 4  uint32 version, 1
//	 8  uint32 length of the key
//	12  uint32 length of the meta
//	16  uint64 length of the body
//	24  uint32 CRC-32C of the body
//	28  uint32 CRC-32C of bytes [0, 28), the key and the meta
//	32  key, meta, body
const (
	magic      = "FRZB"
	version    = 1
	headerLen  = 32
	maxPart    = 64 << 20 // of key and meta; more is damage
	verifyStep = 256 << 10
)

type header struct {
	keyLen, metaLen int64
	bodyLen         int64
	bodyCRC         uint32
}

func newHeader(key string, meta, body []byte) header {
	return header{int64(len(key)), int64(len(meta)), int64(len(body)), crc32.Checksum(body, castagnoli())}
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func (h header) bodyStart() int64 { return headerLen + h.keyLen + h.metaLen }
func (h header) fileLen() int64   { return h.bodyStart() + h.bodyLen }

// fixed is the part of constant length without its own checksum.
func (h header) fixed() []byte {
	b := append(make([]byte, 0, headerLen), magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.keyLen))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.metaLen))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.bodyLen))
	return binary.LittleEndian.AppendUint32(b, h.bodyCRC)
}

func headCRC(fixed []byte, key string, meta []byte) uint32 {
	crc := crc32.Checksum(fixed, castagnoli())
	crc = crc32.Update(crc, castagnoli(), []byte(key))
	return crc32.Update(crc, castagnoli(), meta)
}

func (h header) write(w io.Writer, key string, meta, body []byte) error {
	head := h.fixed()
	head = binary.LittleEndian.AppendUint32(head, headCRC(head, key, meta))
	head = append(append(head, key...), meta...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// verify reads a whole file. fault.ErrCorrupt: it is not what was written under that key.
func verify(f fsys.File, key string) (header, []byte, error) {
	size, err := f.Size()
	if err != nil {
		return header{}, nil, fmt.Errorf("size of cached blob: %w", err)
	}
	fixed := make([]byte, headerLen)
	if size < headerLen {
		return header{}, nil, damaged("shorter than its header")
	}
	if err := readFull(f, fixed, 0); err != nil {
		return header{}, nil, err
	}
	h := header{
		keyLen:  int64(binary.LittleEndian.Uint32(fixed[8:])),
		metaLen: int64(binary.LittleEndian.Uint32(fixed[12:])),
		bodyLen: int64(binary.LittleEndian.Uint64(fixed[16:])),
		bodyCRC: binary.LittleEndian.Uint32(fixed[24:]),
	}
	if string(fixed[:4]) != magic || binary.LittleEndian.Uint32(fixed[4:]) != version {
		return header{}, nil, damaged("not of this format")
	}
	if h.keyLen != int64(len(key)) || h.metaLen > maxPart || h.bodyLen < 0 || h.bodyLen > size || h.fileLen() != size {
		return header{}, nil, damaged("of another length")
	}
	rest := make([]byte, h.keyLen+h.metaLen)
	if err := readFull(f, rest, headerLen); err != nil {
		return header{}, nil, err
	}
	meta := rest[h.keyLen:]
	if string(rest[:h.keyLen]) != key || headCRC(fixed[:28], key, meta) != binary.LittleEndian.Uint32(fixed[28:]) {
		return header{}, nil, damaged("of another key or checksum")
	}
	if err := verifyBody(f, h); err != nil {
		return header{}, nil, err
	}
	return h, meta, nil
}

func verifyBody(f fsys.File, h header) error {
	crc := uint32(0)
	buf := make([]byte, min(verifyStep, h.bodyLen))
	for at := int64(0); at < h.bodyLen; {
		p := buf[:min(int64(len(buf)), h.bodyLen-at)]
		if err := readFull(f, p, h.bodyStart()+at); err != nil {
			return err
		}
		crc = crc32.Update(crc, castagnoli(), p)
		at += int64(len(p))
	}
	if crc != h.bodyCRC {
		return damaged("of another body")
	}
	return nil
}

func readFull(f fsys.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return damaged("shorter than it was")
	}
	return fmt.Errorf("read cached blob: %w", err)
}

func damaged(how string) error { return fmt.Errorf("cached blob is %s: %w", how, fault.ErrCorrupt) }
