module headrace.dev/cluster/ingress

go 1.26
