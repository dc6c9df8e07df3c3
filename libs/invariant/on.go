//go:build invariant

package invariant

// Enabled says whether Check checks.
const Enabled = true
