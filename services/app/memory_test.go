package app

import (
	"log/slog"
	"os"
	"testing"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/kafkalog/franz"
)

func TestTheProgramItselfIsTakenOff(t *testing.T) {
	for _, c := range []struct{ process, program, want int64 }{
		{512 << 20, 32 << 20, 480 << 20},
		{64 << 20, 30 << 20, 34 << 20},
		{63 << 20, 48 << 20, 21 << 20},
		{64 << 20, 0, 64 << 20},
	} {
		if got := collectorLimit(c.process, c.program); got != c.want {
			t.Errorf("%d bytes with a program of %d: %d, want %d", c.process, c.program, got, c.want)
		}
	}
	if programBytes() <= 0 {
		t.Error("the size of the running program is not known")
	}
	if got, want := mappedBytes("5000 3000 2000 9 0 700 0\n"), int64(2000*os.Getpagesize()); got != want {
		t.Errorf("mapped %d bytes, want %d", got, want)
	}
}

func TestFetchesFollowTheMemory(t *testing.T) {
	c := Default()
	whole := c.kafka()
	if d := franz.Default(); whole.FetchBytes != d.FetchBytes || whole.MaxBatchBytes != d.MaxBatchBytes {
		t.Errorf("by default fetches of %d and batches of %d bytes, want the door's own", whole.FetchBytes, whole.MaxBatchBytes)
	}
	c.Memory.MaxBytes = 64 << 20
	if small := c.kafka(); small.FetchBytes != 2<<20 || small.MaxBatchBytes != 32<<20 {
		t.Errorf("in 64 MiB fetches of %d and batches of %d bytes", small.FetchBytes, small.MaxBatchBytes)
	}
}

// The least memory that the configuration allows is enough to begin with.
func TestTheLeastMemoryOpensTheDoor(t *testing.T) {
	c := Default()
	c.Kafka.Brokers = []string{"127.0.0.1:1"}
	c.Memory.MaxBytes = 16 << 20
	door, err := franz.New(c.kafka(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	door.Close()
}

func TestBlocksFollowTheMemoryAndTheSlots(t *testing.T) {
	for _, c := range []struct {
		memory config.Size
		slots  int // of each kind
		want   int64
	}{
		{512 << 20, 2, 32 << 20},
		{512 << 20, 4, 32 << 20},
		{512 << 20, 8, 16 << 20},
		{512 << 20, 64, 8 << 20},
		{64 << 20, 2, 8 << 20},
		{128 << 20, 2, 16 << 20},
		{64 << 30, 16, 32 << 20},
	} {
		conf := Default()
		conf.Memory.MaxBytes, conf.Slots.Work, conf.Slots.Scan = c.memory, c.slots, c.slots
		if got := conf.dedup().BlockBytes; got != c.want {
			t.Errorf("%d bytes of memory and %d slots: blocks of %d bytes, want %d", c.memory, c.slots, got, c.want)
		}
	}
}
