package archtest

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// ContractLines lists what a contract says, line by line: each bullet, each row
// of a table, and each sentence below "Test Direction". Headings and the other
// paragraphs introduce them, and a bullet that begins with a file's name points
// at the design that the contract comes from.
func ContractLines(text string) []string {
	var lines []string
	heading, said := "", ""
	end := func() {
		if said != "" && heading == "Test Direction" && !strings.HasPrefix(said, "- ") {
			lines = append(lines, sentences(said)...)
		} else if bullet, ok := strings.CutPrefix(said, "- "); ok && !aPath.MatchString(bullet) {
			lines = append(lines, strings.TrimPrefix(bullet, "[ ] "))
		}
		said = ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			end()
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		case line == "":
			end()
		case strings.HasPrefix(line, "|"):
			end()
			if cells := strings.Trim(line, "| "); strings.Trim(cells, "-|: ") != "" {
				lines = append(lines, cells)
			}
		case strings.HasPrefix(line, "- "):
			end()
			said = line
		default:
			said = strings.TrimSpace(said + " " + line)
		}
	}
	end()
	return lines
}

var aPath = regexp.MustCompile("^`[^` ]*/[^` ]*`")

var sentenceEnd = regexp.MustCompile(`\. +`)

func sentences(paragraph string) []string {
	all := sentenceEnd.Split(paragraph, -1)
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], ".") + "."
	}
	return all
}

// Row is a line of a contract, or an injection, with what observes it.
type Row struct {
	Line     string   // as the contract says it
	Observed []string // what stands in code quotes in the second column
	Said     []string // and in the third
}

var quoted = regexp.MustCompile("`([^`]+)`")

// RowsUnder lists the rows of the tables of a page below the heading of the
// second level, heads left out. A pipe inside a cell is written \|.
func RowsUnder(page, heading string) []Row {
	var rows []Row
	inside, head := false, true
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if h, ok := strings.CutPrefix(line, "## "); ok {
			inside = h == heading
		}
		if !inside || !strings.HasPrefix(line, "|") {
			head = true
			continue
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
		if head || len(cells) < 4 || strings.Trim(line, "|-: ") == "" {
			head = false
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		rows = append(rows, Row{Line: cells[1], Observed: inQuotes(cells[2]), Said: inQuotes(cells[3])})
	}
	return rows
}

func inQuotes(cell string) []string {
	var all []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// Witnesses are the tests that there are: by "folder.TestName", the texts that
// stand in the file of the test; and by the name of a transcript, its text.
type Witnesses struct {
	Tests       map[string][]string
	Transcripts map[string]string
}

// named tells a test, and a case of it, from the part of a transcript.
var (
	namedTest = regexp.MustCompile(`^(\S+\.(?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)(?:/(.+))?$`)
	namedPart = regexp.MustCompile(`^(\S+) (\S+\.txt) (.+)$`)
)

// Missing says what is wrong with what a row names, "" where it is there. It is
// one of
//
//	internal/node.TestX               a test
//	internal/node.TestX/a case        one of its cases, by a text in its file
//	internal/core/gate own.txt 18.    the part of a transcript that a comment begins so
func (w Witnesses) Missing(name string) string {
	if m := namedTest.FindStringSubmatch(name); m != nil {
		texts, there := w.Tests[m[1]]
		switch {
		case !there:
			return "there is no such test"
		case m[2] != "" && !slices.Contains(texts, m[2]):
			return "the test has no such case"
		}
		return ""
	}
	if m := namedPart.FindStringSubmatch(name); m != nil {
		text, there := w.Transcripts[path.Join(m[1], "testdata", "scenarios", m[2])]
		switch {
		case !there:
			return "there is no such transcript"
		case !strings.Contains("\n"+text, "\n# "+m[3]):
			return "the transcript has no part that begins so"
		}
		return ""
	}
	return "it is neither a test nor a part of a transcript"
}
