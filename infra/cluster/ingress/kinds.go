package main

import "encoding/json"

// What is read of Kubernetes' objects, and no more.

type object struct {
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		Generation      int64  `json:"generation"`
		ResourceVersion string `json:"resourceVersion"`
		Deletion        string `json:"deletionTimestamp"`
	} `json:"metadata"`
}

func (o object) name() name { return name{o.Metadata.Namespace, o.Metadata.Name} }

func (o object) version() string { return o.Metadata.ResourceVersion }

type name struct{ namespace, name string }

type service struct {
	object
	Spec struct {
		ClusterIP string `json:"clusterIP"`
	} `json:"spec"`
}

type ingress struct {
	object
	Spec struct {
		Rules []rule `json:"rules"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64       `json:"observedGeneration"`
		Conditions         []condition `json:"conditions"`
	} `json:"status"`
}

type rule struct {
	Hosts      []string `json:"hosts"`
	Visibility string   `json:"visibility"`
	HTTP       *struct {
		Paths []path `json:"paths"`
	} `json:"http"`
}

type path struct {
	Path          string                 `json:"path"`
	RewriteHost   string                 `json:"rewriteHost"`
	Headers       map[string]headerMatch `json:"headers"`
	Splits        []split                `json:"splits"`
	AppendHeaders map[string]string      `json:"appendHeaders"`
}

type headerMatch struct {
	Exact string `json:"exact"`
}

type split struct {
	ServiceNamespace string            `json:"serviceNamespace"`
	ServiceName      string            `json:"serviceName"`
	ServicePort      json.Number       `json:"servicePort"`
	Percent          int               `json:"percent"`
	AppendHeaders    map[string]string `json:"appendHeaders"`
}

type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

func (i ingress) isReady() bool {
	for _, each := range i.Status.Conditions {
		if each.Type == "Ready" {
			return each.Status == "True" && i.Status.ObservedGeneration == i.Metadata.Generation
		}
	}
	return false
}
