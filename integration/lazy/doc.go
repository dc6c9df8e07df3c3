// Package lazy tests tables of plan lazy from outside: they answer at once, a query reads no more of the log than its
// predicates leave, and what it finds is what a plain fold of the topic finds.
package lazy
