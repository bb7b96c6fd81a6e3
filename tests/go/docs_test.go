package tests

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	unnamed = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`) // what an anchor leaves out
)

// anchors returns those of the headings of a page.
func anchors(page []byte) []string {
	var list []string
	for _, m := range heading.FindAllSubmatch(fenced.ReplaceAll(page, nil), -1) {
		list = append(list, strings.ReplaceAll(unnamed.ReplaceAllString(strings.ToLower(string(m[1])), ""), " ", "-"))
	}
	return list
}

// brokenLinks returns the links of a page, at a path from the root, that lead to no file of
// the project, or to no heading of a page.
func brokenLinks(page source) []string {
	var broken []string
	for _, m := range link.FindAllSubmatch(fenced.ReplaceAll(page.text, nil), -1) {
		to := string(m[1])
		if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(to, "#")
		text, err := page.text, error(nil)
		if file != "" {
			file = filepath.Join(root, path.Dir(page.path), file)
			if _, err = os.Stat(file); err == nil && anchor != "" {
				text, err = os.ReadFile(file)
			}
		}
		if err != nil || anchor != "" && !slices.Contains(anchors(text), anchor) {
			broken = append(broken, fmt.Sprintf("%s: %s", page.path, to))
		}
	}
	return broken
}

func TestLintLinks(t *testing.T) {
	for _, page := range sources(t, ".md") {
		assert.Empty(t, brokenLinks(page))
	}
}

func TestLintLinksFinds(t *testing.T) {
	page := source{"docs/page.md", []byte("# Some `words`: here\n[a](#some-words-here) [b](architecture.md#packages) [c](../README.md) [d](https://example.com)\n" +
		"[e](#elsewhere) [f](no.md) [g](architecture.md#some-words-here)\n```\n[h](no.md)\n# Elsewhere\n```\n")}
	require.Equal(t, []string{"docs/page.md: #elsewhere", "docs/page.md: no.md", "docs/page.md: architecture.md#some-words-here"}, brokenLinks(page))
}

// TestLintArchitecture: the table of packages has each of them, by name or as part of a row
// with dots.
func TestLintArchitecture(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	require.NoError(t, err)
	for _, s := range sources(t, ".go") {
		folder := path.Dir(s.path)
		names := []string{"`" + folder + "`"}
		for at := folder; at != "."; at = path.Dir(at) {
			names = append(names, "`"+at+"/...`")
		}
		isNamed := slices.ContainsFunc(names, func(name string) bool { return strings.Contains(string(page), name) })
		assert.True(t, isNamed || strings.HasPrefix(folder, "tests/"), "%s is not in the table of docs/architecture.md", folder)
	}
}
