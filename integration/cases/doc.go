// Package cases holds faults from the field as tests through the whole product: what users of change data capture
// met elsewhere, re-told with neutral data, and the right answer.
package cases
