// Package bench measures what docs/BENCHMARKS.md states, every figure beside the one that it is compared with, in one
// run: `make bench`. Pairs are measured in turn, several times; what is printed is the median with the least and the
// greatest. Nothing is asserted about time.
//
//	FRAZIL_BENCH         parts to run, of a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q (default all)
//	FRAZIL_BENCH_EVENTS  events of the topics (default 1000000)
//	FRAZIL_BENCH_ROUNDS  how often each pair is measured (default 3)
//	FRAZIL_BENCH_BROKER  host:port of a broker to use instead of one that is started
//	FRAZIL_BENCH_PROFILE folder for CPU profiles of the parts of (a)
//
// `make bench` calls them BENCH, BENCH_SIZE and so on.
package bench
