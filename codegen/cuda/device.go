package cuda

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Device functions are in files by theme, which are cut into sections. A line
//
//	//@ NAME needs OTHER ...
//
// begins one: it tells what the section is called and which others it refers
// to. A kernel's text has the sections that it needs and no more, in the order
// of the files below and of the lines in them.

//go:embed device/*.cuh
var deviceFiles embed.FS

// deviceOrder lists the files so that a section follows those it needs.
var deviceOrder = []string{"types", "convert", "integer", "real", "complex", "complex_functions", "memory", "sync", "random"}

// A section is a part of a device file.
type section struct {
	name  string
	needs []string
	text  string
}

var (
	sections   = readSections()
	sectionsBy = func() map[string]int {
		by := map[string]int{}
		for i, s := range sections {
			if _, twice := by[s.name]; twice {
				panic("cuda: device section " + s.name + " is there twice")
			}
			by[s.name] = i
		}
		return by
	}()
)

func readSections() []section {
	var all []section
	for _, file := range deviceOrder {
		text, err := deviceFiles.ReadFile("device/" + file + ".cuh")
		if err != nil {
			panic(err)
		}
		parts := strings.Split(string(text), "\n//@ ")
		for _, part := range parts[1:] { // the first tells the theme
			head, body, _ := strings.Cut(part, "\n")
			names, needs, _ := strings.Cut(head, " needs ")
			all = append(all, section{name: strings.TrimSpace(names), needs: strings.Fields(needs), text: strings.TrimSpace(body) + "\n"})
		}
	}
	return all
}

// hasSection reports whether there is a section called name.
func hasSection(name string) bool {
	_, ok := sectionsBy[name]
	return ok
}

// deviceText returns the sections of the given names and those that they need.
func deviceText(names []string) string {
	wanted := make([]bool, len(sections))
	var mark func(name string)
	mark = func(name string) {
		i, ok := sectionsBy[name]
		if !ok {
			panic(fmt.Sprintf("cuda: there is no device section %s", name))
		}
		if wanted[i] {
			return
		}
		wanted[i] = true
		for _, n := range sections[i].needs {
			mark(n)
		}
	}
	for _, n := range names {
		mark(n)
	}
	var b strings.Builder
	for i, s := range sections {
		if wanted[i] {
			b.WriteString(s.text)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

var called = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)(?:<[^<>()]*>)?\(`)

// functionNames returns the names in text that a call or a declaration of a
// function begins with.
func functionNames(text string) []string {
	var names []string
	for _, m := range called.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}
