package dedup

import "testing"

// TestSizesFollowTheRecords: a block has as many records as fit into BlockBytes, a chunk about eight blocks.
func TestSizesFollowTheRecords(t *testing.T) {
	for _, c := range []struct {
		blockBytes, bytesPerOffset int64
		table                      TableConfig
		chunk, block               int
	}{
		{32 << 20, 342, TableConfig{}, 19, 16},
		{32 << 20, 512, TableConfig{}, 19, 16},
		{32 << 20, 513, TableConfig{}, 18, 14},
		{32 << 20, 762, TableConfig{}, 18, 14},
		{8 << 20, 342, TableConfig{}, 17, 14},
		{32 << 20, 1, TableConfig{}, 19, 16},
		{32 << 20, 1 << 20, TableConfig{}, 14, 10},
		{32 << 20, 342, TableConfig{ChunkLog2: 12}, 12, 12},
		{32 << 20, 342, TableConfig{ChunkLog2: 21, BlockLog2: 18}, 21, 18},
		{32 << 20, 0, TableConfig{ChunkLog2: 21}, 0, 0},
		{32 << 20, 0, TableConfig{ChunkLog2: 9, BlockLog2: 8}, 9, 8},
	} {
		s := &Service{cfg: Config{BlockBytes: c.blockBytes, Tables: map[string]TableConfig{"orders": c.table}}}
		if chunk, block := s.sizes("orders", c.bytesPerOffset); chunk != c.chunk || block != c.block {
			t.Errorf("%d bytes per offset, blocks of %d, %+v: chunk 2^%d, block 2^%d, want %d and %d",
				c.bytesPerOffset, c.blockBytes, c.table, chunk, block, c.chunk, c.block)
		}
	}
}
