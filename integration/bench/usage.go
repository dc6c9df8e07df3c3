package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownCPU is the time that this process has computed, user and system.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of the times in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// cpuOf is the time that another process has computed, user and system, to a hundredth of a second.
func cpuOf(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold anything. utime and stime are the 14th and 15th fields (proc(5)).
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3
	total := int64(0)
	for _, i := range []int{utime, stime} {
		if i >= len(fields) {
			return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
		}
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		total += n
	}
	return time.Duration(total) * tick, nil
}

// peakMemory is the most that a process has had in memory, bytes (VmHWM), and how much of it was not mapped from files
// at the end (RssAnon).
func peakMemory(pid int) (peak, anonymous int64, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	return kilobytes(string(raw), "VmHWM:") << 10, kilobytes(string(raw), "RssAnon:") << 10, nil
}

func kilobytes(status, name string) int64 {
	_, rest, ok := strings.Cut(status, name)
	if !ok {
		return 0
	}
	var kb int64
	if _, err := fmt.Sscanf(rest, "%d kB", &kb); err != nil {
		return 0
	}
	return kb
}

// machine describes what the figures were measured on.
func machine() string {
	model := "unknown processor"
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(raw), "model name"); ok {
			model, _, _ = strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
		}
	}
	memory := int64(0)
	if raw, err := os.ReadFile("/proc/meminfo"); err == nil {
		memory = kilobytes(string(raw), "MemTotal:")
	}
	return fmt.Sprintf("%s, %.1f GiB", model, float64(memory)/(1<<20))
}

// load is the load average of the last minute.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
