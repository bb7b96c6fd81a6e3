package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
)

// format is the first line of a file: it changes with what the fields mean.
const format = 1

// A file is what is written of a machine.
type file struct {
	Format int `json:"format"`
	Machine
}

// Text returns m as JSON, as [Parse] reads it.
func (m Machine) Text() string {
	text, err := json.MarshalIndent(file{format, m}, "", "  ")
	if err != nil { // of an infinity or a NaN, which Check refuses
		panic(err)
	}
	return string(text) + "\n"
}

// Parse reads what Text wrote.
//
// Errors: a sentence that says what is wrong with the text.
func Parse(text []byte) (Machine, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		return Machine{}, fmt.Errorf("it is not JSON of a calibration: %v", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return Machine{}, fmt.Errorf("something follows the calibration")
	}
	if f.Format != format {
		return Machine{}, fmt.Errorf("its format is %d, and this version reads %d: calibrate again", f.Format, format)
	}
	return f.Machine, f.Check()
}

// limits are what the numbers of a machine may be, by the end of the name: far beyond those
// of any device, so that times stay finite and positive.
var limits = []struct {
	suffix  string
	lo, hi  float64
	meaning string
}{
	{"_us", 0, 1e4, "us"},
	{"_rate", 1, 1e12, "in a us"},
	{"kept", 0, 1e12, "bytes"},
	{"dirty_from", 1, 1e12, "bytes"},
}

// Numbers returns all numbers of m, to change them.
func (m *Machine) Numbers() []*float64 {
	var all []*float64
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if x, ok := v.Field(i).Addr().Interface().(*float64); ok {
			all = append(all, x)
		}
	}
	return all
}

// Check returns which number is none that a device can have.
func (m Machine) Check() error {
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		if v.Field(i).Kind() == reflect.String {
			if v.Field(i).Len() == 0 {
				return fmt.Errorf("%s is missing", name)
			}
			continue
		}
		x := v.Field(i).Float()
		for _, l := range limits {
			if strings.HasSuffix(name, l.suffix) && (!(x >= l.lo && x <= l.hi) || math.IsNaN(x)) {
				return fmt.Errorf("%s is %v; it must be from %v to %v %s", name, x, l.lo, l.hi, l.meaning)
			}
		}
	}
	return nil
}
