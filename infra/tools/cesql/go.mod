module headrace.dev/tools/cesql

go 1.26.3

require github.com/cloudevents/sdk-go/sql/v2 v2.16.2
