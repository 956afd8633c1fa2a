// schema prints how Kubernetes' built-in types look in protobuf, read from the tags of their Go structs: the table
// that crates/testserver decodes protobuf bodies by.
//
//	go run ./schema >../../crates/testserver/src/protobuf/schema.txt
package main

import (
	"fmt"
	"os"
	"path"
	"reflect"
	"slices"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// versions are the group versions whose kinds the server understands.
var versions = []string{
	"v1", "admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "apps/v1", "authentication.k8s.io/v1",
	"authorization.k8s.io/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1", "certificates.k8s.io/v1",
	"coordination.k8s.io/v1", "discovery.k8s.io/v1", "events.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1",
	"networking.k8s.io/v1", "node.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "scheduling.k8s.io/v1",
	"storage.k8s.io/v1",
}

// special messages have a JSON form of their own; the server knows them by name.
var special = []string{
	"meta/v1.Time", "meta/v1.MicroTime", "meta/v1.FieldsV1", "api/resource.Quantity", "util/intstr.IntOrString",
	"pkg/runtime.RawExtension", "apiextensions/v1.JSON", "apiextensions/v1.JSONSchemaPropsOrArray",
	"apiextensions/v1.JSONSchemaPropsOrBool", "apiextensions/v1.JSONSchemaPropsOrStringArray",
}

type schema struct {
	kinds    []string
	messages map[string][]string
}

func main() {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	found := schema{messages: map[string][]string{}}
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		version := kind.GroupVersion().String()
		// Lists and options are not sent as bodies, but for those of DELETE.
		isOptions := strings.HasSuffix(kind.Kind, "Options") && kind.Kind != "DeleteOptions"
		isInternal := kind.Kind == "WatchEvent" || isOptions || strings.HasSuffix(kind.Kind, "List")
		if !slices.Contains(versions, version) || isInternal {
			continue
		}
		found.kinds = append(found.kinds, fmt.Sprintf("kind %s %s %s", version, kind.Kind, found.message(goType)))
	}
	sort.Strings(found.kinds)
	fmt.Println(strings.Join(found.kinds, "\n"))
	var names []string
	for name := range found.messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Println("message " + name)
		for _, field := range found.messages[name] {
			fmt.Println(field)
		}
	}
}

// message gives the short name of a struct and sees to it that its fields are in the schema.
func (s *schema) message(goType reflect.Type) string {
	name := path.Base(path.Dir(goType.PkgPath())) + "/" + path.Base(goType.PkgPath()) + "." + goType.Name()
	if _, seen := s.messages[name]; seen || slices.Contains(special, name) {
		return name
	}
	s.messages[name] = nil
	if goType.Kind() == reflect.Slice { // a list that has a message of its own, such as ExtraValue
		s.messages[name] = []string{"1 items " + s.scalar(goType.Elem()) + " repeated unwrapped"}
		return name
	}
	var fields []string
	for i := range goType.NumField() {
		if field := s.field(goType.Field(i)); field != "" {
			fields = append(fields, field)
		}
	}
	s.messages[name] = fields
	return name
}

func (s *schema) field(field reflect.StructField) string {
	tag := field.Tag.Get("protobuf")
	if tag == "" || tag == "-" {
		return "" // TypeMeta, which the envelope carries
	}
	number := strings.Split(tag, ",")[1]
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	goType, flags := field.Type, ""
	omitsZero := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	if goType.Kind() == reflect.Pointer { // what it points to may be zero
		goType, omitsZero = goType.Elem(), false
	}
	isBytes := goType.Kind() == reflect.Slice && goType.Elem().Kind() == reflect.Uint8
	isMessage := s.isListMessage(goType)
	switch {
	case goType.Kind() == reflect.Map:
		flags, goType = " map", goType.Elem()
	case goType.Kind() == reflect.Slice && !isBytes && !isMessage:
		flags, goType = " repeated", goType.Elem()
	}
	if name == "" {
		name, flags = "-", flags+" inline"
	}
	// JSON has structs even if they are zero, but for times.
	if omitsZero && (goType.Kind() != reflect.Struct || strings.Contains(options, "omitzero")) {
		flags += " omitzero"
	}
	return number + " " + name + " " + s.scalar(goType) + flags
}

// isListMessage says whether a named slice is a message in protobuf: those have methods to be marshalled by.
func (s *schema) isListMessage(goType reflect.Type) bool {
	_, found := reflect.PointerTo(goType).MethodByName("MarshalTo")
	return goType.Kind() == reflect.Slice && found
}

func (s *schema) scalar(goType reflect.Type) string {
	switch goType.Kind() {
	case reflect.Pointer:
		return s.scalar(goType.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "int"
	case reflect.Float64:
		return "double"
	case reflect.Struct:
		return s.message(goType)
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if s.isListMessage(goType) {
			return s.message(goType)
		}
	}
	panic("no form in protobuf is known for " + goType.String())
}
