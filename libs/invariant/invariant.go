// Package invariant states what must hold inside the code. With the build tag `invariant`, which every test run
// sets, a broken statement panics; in a release the constant Enabled removes the check and its arguments' cost
// stays with the caller: guard expensive ones with `if invariant.Enabled`.
package invariant

import "fmt"

// Check panics in invariant builds when ok is false. It is for statements about our own code, never for input.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
