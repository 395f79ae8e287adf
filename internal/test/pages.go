package test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Pages returns the English Markdown pages in a tree, by their paths.
func Pages(t testing.TB, root fs.FS) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" ||
			d.Name() == "logs"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md") && !strings.HasSuffix(name, ".zh-CN.md"):
			text, err := fs.ReadFile(root, name)
			pages[name] = string(text)
			return err
		}
		return nil
	})
	OK(t, err)
	return pages
}

// Blocks returns the code blocks of a page that are in the given language.
func Blocks(page, language string) (all []string) {
	for _, b := range regexp.MustCompile("(?s)\n```"+language+"\n(.*?\n)```").FindAllStringSubmatch(page, -1) {
		all = append(all, b[1])
	}
	return all
}

// ShellCommands returns the commands in a page's blocks of sh and bash, without comments. A line that ends in \
// continues on the next line.
func ShellCommands(page string) (all []string) {
	for _, language := range []string{"sh", "bash"} {
		for _, text := range Blocks(page, language) {
			for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
				line, _, _ = strings.Cut(line, " #")
				for part := range strings.SplitSeq(line, " && ") {
					if part = strings.TrimSpace(part); part != "" && !strings.HasPrefix(part, "#") {
						all = append(all, part)
					}
				}
			}
		}
	}
	return all
}

var codeSpan = regexp.MustCompile("`([^`\n]+)`")

// CodeSpans returns what a page has between single backquotes, in its text and tables but not in its blocks of code.
func CodeSpans(page string) (all []string) {
	fenced := false
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if !fenced {
			for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
				all = append(all, m[1])
			}
		}
	}
	return all
}
