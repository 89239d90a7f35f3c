module headrace.dev/bench/proxy

go 1.26
