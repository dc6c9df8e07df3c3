module github.com/frazil-io/frazil/tools

go 1.26.0

require (
	github.com/frazil-io/frazil/libs v0.0.0
	github.com/frazil-io/frazil/proto v0.0.0
)

replace (
	github.com/frazil-io/frazil/libs => ../libs
	github.com/frazil-io/frazil/proto => ../proto
)
