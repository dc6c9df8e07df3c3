module github.com/frazil-io/frazil/services

go 1.26.0

require (
	github.com/frazil-io/frazil/libs v0.0.0
	github.com/frazil-io/frazil/proto v0.0.0
)

replace (
	github.com/frazil-io/frazil/libs => ../libs
	github.com/frazil-io/frazil/proto => ../proto
)

require github.com/frazil-io/frazil/tools v0.0.0

require github.com/aws/aws-sdk-go-v2 v1.48.0 // indirect

replace github.com/frazil-io/frazil/tools => ../tools
