//go:build !race

package dedup

// stride: every crash point is tried.
const stride = 1
