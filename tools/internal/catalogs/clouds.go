//go:build clouds

package catalogs

import (
	_ "github.com/apache/iceberg-go/io/gocloud/azure" // abfs://, abfss://, wasb://, wasbs://
	_ "github.com/apache/iceberg-go/io/gocloud/gcs"   // gs://
)
