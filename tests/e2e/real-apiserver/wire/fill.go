package main

import (
	"math/rand/v2"
	"reflect"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// filler fills objects with random values, including absent and empty values.
type filler struct {
	rand *rand.Rand
	// The fields that have had a value. Each field gets a value at its first occurrence.
	met map[field]bool
}

type field struct {
	message reflect.Type
	index   int
}

// deepest is the maximum nesting depth of random values.
const deepest = 7

// tries is the maximum number of empty random values if a value is required.
const tries = 50

func (f *filler) object(object runtime.Object) {
	f.message(reflect.ValueOf(object).Elem(), 0)
}

func (f *filler) message(value reflect.Value, depth int) {
	for i := range value.NumField() {
		// TypeMeta is not sent with the object.
		if value.Type().Field(i).Tag.Get("protobuf") == "" {
			continue
		}
		of, at := field{value.Type(), i}, value.Field(i)
		if !f.met[of] {
			// Recorded before the recursion, because a message may contain itself.
			f.met[of] = true
			for try := 0; try < tries && at.IsZero(); try++ {
				// Each field permits further nested values.
				f.fill(at, min(depth, deepest-3)+1, true)
			}
			f.met[of] = !at.IsZero()
		} else if f.rand.IntN(3) > 0 {
			f.fill(at, depth+1, false)
		}
	}
}

// fill draws a value. A required value is never absent.
func (f *filler) fill(value reflect.Value, depth int, needed bool) {
	if f.special(value) {
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		f.message(value, depth)
	case reflect.Pointer:
		shallow := depth < deepest || scalar(value.Type().Elem()) != ""
		if needed || shallow && f.rand.IntN(3) > 0 {
			value.Set(reflect.New(value.Type().Elem()))
			f.fill(value.Elem(), depth+1, needed)
		}
	case reflect.Slice:
		f.slice(value, depth, needed)
	case reflect.Map:
		f.entries(value, depth, needed)
	case reflect.Bool:
		value.SetBool(f.rand.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		value.SetInt(f.integer(value.Type().Bits()))
	case reflect.Float64:
		value.SetFloat([]float64{0, 1, -1, 0.5, 1e21, -2.5e-7, 1e300, 1 << 53}[f.rand.IntN(8)])
	case reflect.String:
		value.SetString(f.text())
	}
}

func (f *filler) slice(value reflect.Value, depth int, needed bool) {
	if value.Type().Elem().Kind() == reflect.Uint8 {
		if needed || f.rand.IntN(4) > 0 {
			value.SetBytes([]byte(f.text()))
		}
		return
	}
	length := f.length(depth, needed)
	if length < 0 {
		return
	}
	value.Set(reflect.MakeSlice(value.Type(), length, length))
	for i := range length {
		f.fill(value.Index(i), depth+1, needed)
	}
}

func (f *filler) entries(value reflect.Value, depth int, needed bool) {
	length := f.length(depth, needed)
	if length < 0 {
		return
	}
	value.Set(reflect.MakeMap(value.Type()))
	for range length {
		key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		key.SetString(f.text())
		f.fill(item, depth+1, needed)
		value.SetMapIndex(key, item)
	}
}

// length returns the number of items of a list or map; a negative number means that it is absent.
func (f *filler) length(depth int, needed bool) int {
	switch {
	case needed:
		return 1 + f.rand.IntN(2)
	case depth >= deepest:
		return -1
	}
	return f.rand.IntN(5) - 2
}

func (f *filler) integer(bits int) int64 {
	switch f.rand.IntN(4) {
	case 0:
		return 0
	case 1:
		return int64(f.rand.IntN(100))
	case 2:
		return -int64(f.rand.IntN(100))
	default:
		return int64(f.rand.Uint64()) >> (64 - bits)
	}
}

func (f *filler) text() string {
	texts := []string{"", "a", "b-1", "example.com/key", "Ünïcode ☸", "quote\" \\ \n <tag>&\u2028", "\x00"}
	if f.rand.IntN(8) == 0 {
		long := make([]byte, 200)
		for i := range long {
			long[i] = byte('a' + f.rand.IntN(26))
		}
		return string(long)
	}
	return texts[f.rand.IntN(len(texts))]
}

func (f *filler) json() []byte {
	texts := []string{"", "null", "true", "-12.5", `"text"`, "[1,2,{}]", `{"f:metadata":{"f:labels":{".":{}}}}`, "{}"}
	return []byte(texts[f.rand.IntN(len(texts))])
}

func (f *filler) moment() time.Time {
	switch f.rand.IntN(4) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(0, 0)
	case 2:
		return time.Unix(-f.rand.Int64N(60_000_000_000), f.rand.Int64N(1_000_000_000))
	default:
		return time.Unix(f.rand.Int64N(250_000_000_000), f.rand.Int64N(1_000_000_000))
	}
}

// special fills the types with private fields.
func (f *filler) special(value reflect.Value) bool {
	switch at := value.Addr().Interface().(type) {
	case *meta.Time:
		at.Time = f.moment()
	case *meta.MicroTime:
		at.Time = f.moment()
	case *resource.Quantity:
		texts := []string{"0", "1", "100m", "1500m", "1Gi", "1.5Gi", "12e6", "1E", "-3k", "0.000000001", "123456789012345678901234567890"}
		*at = resource.MustParse(texts[f.rand.IntN(len(texts))])
	case *intstr.IntOrString:
		if f.rand.IntN(2) == 0 {
			*at = intstr.FromInt32(int32(f.integer(32)))
		} else {
			*at = intstr.FromString(f.text())
		}
	case *runtime.RawExtension:
		// Empty bytes are not JSON; absent ones are null.
		if text := f.json(); len(text) > 0 {
			at.Raw = text
		}
	case *meta.FieldsV1:
		at.SetRawBytes([]byte([]string{"", "{}", `{"f:data":{"f:k":{}}}`}[f.rand.IntN(3)]))
	case *apiextensions.JSON:
		at.Raw = f.json()
	default:
		return false
	}
	return true
}
