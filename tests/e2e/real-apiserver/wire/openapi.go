package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// definitions returns the OpenAPI definitions of kube-apiserver by the names of their models.
func definitions() map[string]common.OpenAPIDefinition {
	return openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })
}

// modelPackage returns the package of a model: io.k8s.api.core.v1 for k8s.io/api/core/v1.
func modelPackage(of reflect.Type) string {
	named, hasName := reflect.New(of).Interface().(interface{ OpenAPIModelName() string })
	if hasName {
		return strings.TrimSuffix(named.OpenAPIModelName(), "."+of.Name())
	}
	// Such a type has no model. Documents contain its schema at each use.
	host, path, _ := strings.Cut(of.PkgPath(), "/")
	labels := strings.Split(host, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".")
}

// messageFacts returns the facts of a message in the notation of the table.
func (t *tableWriter) messageFacts(message reflect.Type) string {
	facts := ""
	if _, hasTypeMeta := message.FieldByName("TypeMeta"); message.Kind() == reflect.Struct && hasTypeMeta {
		facts += " +kind"
	}
	if mapType, _ := t.schema(message).Extensions.GetString("x-kubernetes-map-type"); mapType != "" {
		facts += " +map=" + mapType
	}
	return facts
}

func (t *tableWriter) schema(message reflect.Type) spec.Schema {
	return t.definitions[modelPackage(message)+"."+message.Name()].Schema
}

// fieldFacts returns the facts of a field that its Go type and its JSON tag do not determine.
func (t *tableWriter) fieldFacts(message reflect.Type, name string, parts parts, omitempty bool) (string, error) {
	schema := t.schema(message)
	property, known := schema.Properties[name]
	if !known {
		return "", nil
	}
	facts := ""
	if slices.Contains(schema.Required, name) {
		facts += " +required"
	}
	element := property
	if property.Items != nil {
		element = *property.Items.Schema
	} else if property.AdditionalProperties != nil {
		element = *property.AdditionalProperties.Schema
	}
	if element.Enum != nil {
		values := make([]string, len(element.Enum))
		for i, value := range element.Enum {
			values[i] = value.(string)
		}
		facts += " +enum=" + strings.Join(values, ",")
	}
	word, err := defaultFact(property, parts, omitempty)
	if err != nil {
		return "", fmt.Errorf("%v.%s: %w", message, name, err)
	}
	facts += word
	if mapType, _ := property.Extensions.GetString("x-kubernetes-map-type"); mapType != "" {
		facts += " +map=" + mapType
	}
	if listType, _ := property.Extensions.GetString("x-kubernetes-list-type"); listType != "" {
		facts += " +list=" + listType
		if keys, _ := property.Extensions.GetStringSlice("x-kubernetes-list-map-keys"); keys != nil {
			facts += "(" + strings.Join(keys, ",") + ")"
		}
	}
	if patch, _ := property.Extensions.GetString("x-kubernetes-patch-strategy"); patch != "" {
		facts += " +patch=" + patch
		if key, _ := property.Extensions.GetString("x-kubernetes-patch-merge-key"); key != "" {
			facts += "(" + key + ")"
		}
	}
	return facts, nil
}

// defaultFact returns the default of a field, unless it is the zero value that the type implies.
func defaultFact(property spec.Schema, parts parts, omitempty bool) (string, error) {
	implied := any(nil)
	switch word := scalar(parts.base); {
	case parts.shape != "":
	case word == "" && choices[parts.base] == nil && parts.base.Kind() == reflect.Struct:
		implied = map[string]any{}
	case omitempty || special[parts.base] != "" || word == "bytes":
	case word == "bool":
		implied = false
	case word == "string":
		implied = ""
	default:
		implied = 0
	}
	have, err := json.Marshal(property.Default)
	if err != nil {
		return "", err
	}
	want, err := json.Marshal(implied)
	if err != nil || bytes.Equal(have, want) {
		return "", err
	}
	return " +default=" + string(have), nil
}
