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

require (
	github.com/aws/aws-sdk-go-v2 v1.48.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/confluentinc/confluent-kafka-go/v2 v2.11.1 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/twmb/franz-go v1.22.3 // indirect
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/frazil-io/frazil/tools => ../tools
