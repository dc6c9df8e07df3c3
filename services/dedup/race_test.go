//go:build race

package dedup

// stride: under the race detector, which makes it many times slower, one of so many crash points is tried.
const stride = 13
