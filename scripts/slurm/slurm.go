// Package slurm embeds the batch scripts of this folder and adapts them to a job. It changes only
// the lines that define the job and its resources, so an adapted script runs the same commands as
// the tested script.
package slurm

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

//go:embed *.sbatch
var files embed.FS

// templates lists the scripts with their names for users.
var templates = [...]struct{ name, file string }{
	{"train", "train.sbatch"},
	{"requeue", "train-requeue.sbatch"},
	{"hetjob", "hetjob.sbatch"},
	{"sweep", "sweep.sbatch"},
	{"bench", "bench.sbatch"},
}

// Names returns the names of the scripts.
func Names() []string {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.name
	}
	return names
}

// A Resources describes the job that a script is adapted to.
type Resources struct {
	// Name is the name of the job in squeue and of the output file. Scripts without a configuration
	// ignore it.
	Name string
	// Time is the time limit in Slurm's notation, such as 04:00:00. If it is "", the script's limit
	// stays.
	Time string
	// Partition, Account, Mem (memory per node, such as 32G), QOS and Constraint are options of
	// sbatch for all parts. Empty options are left out.
	Partition, Account, Mem, QOS, Constraint string
	// Options are further options of sbatch, such as --exclusive, for all parts. They replace those of the script.
	Options []string
	// Modules are environment modules to load before the job.
	Modules []string
	// Parts describe the nodes: one part, or two for hetjob.
	Parts []NodeSet
	// Config is the path of the configuration.
	Config string
	// Run is the name of the run. A sweep derives the names of its runs from it.
	Run string
	// Overrides are the arguments after the configuration: key=value.
	Overrides []string
}

// A NodeSet is a set of equal nodes.
type NodeSet struct {
	Nodes        int
	TasksPerNode int
	CPUsPerTask  int
	GPUsPerNode  int // 0 for none
}

// Script returns the named script, adapted to j. It panics if the name is unknown, or if
// len(j.Parts) is not Parts(name).
func Script(name string, j Resources) string {
	text := read(name)
	if !strings.Contains(text, "\nCONFIG=") {
		j.Name = "" // it runs no configuration
	}
	knobs := map[string]string{
		"CONFIG": "${CONFIG:-" + quote(j.Config) + "}", "NAME": "${NAME:-" + quote(j.Run) + "}",
		"OVERRIDES": "(" + quoteAll(j.Overrides) + ")",
	}
	var out strings.Builder
	part, head := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		isOption := strings.HasPrefix(line, "#SBATCH --")
		if head && !isOption { // for sbatch the last of equal options counts
			for _, more := range j.Options {
				out.WriteString("#SBATCH " + more + "\n")
			}
		}
		head = isOption
		switch option := option.FindStringSubmatch(line); {
		case line == "#SBATCH hetjob":
			part++
		case option != nil:
			line = j.Parts[part].option(j, option[1], line)
		default:
			if knob := knob.FindStringSubmatch(line); knob != nil && knobs[knob[1]] != "" {
				line = assign(knob[1], knobs[knob[1]], knob[2])
			}
		}
		if strings.HasPrefix(line, "set -") { // modules load before set -u, because they may use unset variables
			for _, m := range j.Modules {
				out.WriteString("module load " + quote(m) + " || exit\n")
			}
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
	if part != len(j.Parts)-1 {
		panic(fmt.Sprintf("slurm: %s has %d parts, not %d", name, part+1, len(j.Parts)))
	}
	return out.String()
}

// Parts returns the number of parts of the named script.
func Parts(name string) int { return 1 + strings.Count(read(name), "\n#SBATCH hetjob\n") }

func read(name string) string {
	for _, t := range templates {
		if t.name == name {
			text, err := files.ReadFile(t.file)
			if err != nil {
				panic(err) // it is embedded
			}
			return string(text)
		}
	}
	panic(fmt.Sprintf("slurm: no script %q, only %q", name, Names()))
}

var (
	option = regexp.MustCompile(`^#SBATCH --([a-z-]+)=`)
	// knob matches an assignment: a name, its value, and an optional comment.
	knob = regexp.MustCompile(`^([A-Z]+)=(?:\$\{[^}]*\}|\([^)]*\))\s*(#.*)?$`)
)

// option returns the line of an sbatch option with the value in p or j. If neither has a value, the
// line stays as it is.
func (p NodeSet) option(j Resources, name, line string) string {
	value := ""
	switch name {
	case "job-name":
		value = jobName(j.Name)
	case "time":
		value = j.Time
	case "nodes":
		value = strconv.Itoa(p.Nodes)
	case "ntasks-per-node":
		value = strconv.Itoa(p.TasksPerNode)
	case "cpus-per-task":
		value = strconv.Itoa(p.CPUsPerTask)
		if p.GPUsPerNode > 0 {
			value += "\n#SBATCH --gpus-per-node=" + strconv.Itoa(p.GPUsPerNode)
		}
		for _, more := range [][2]string{{"partition", j.Partition}, {"account", j.Account}, {"mem", j.Mem},
			{"qos", j.QOS}, {"constraint", j.Constraint}} {
			if more[1] != "" {
				value += "\n#SBATCH --" + more[0] + "=" + more[1]
			}
		}
	}
	if value == "" {
		return line
	}
	return "#SBATCH --" + name + "=" + value
}

// jobName replaces the characters of name that are invalid in file names or options of sbatch by
// "-".
func jobName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.,:=+-", r) {
			return r
		}
		return '-'
	}, name)
}

// assign returns an assignment with its comment, aligned with the other comments of the script.
func assign(name, value, comment string) string {
	const column = 49
	line := name + "=" + value
	if comment == "" {
		return line
	}
	return line + strings.Repeat(" ", max(1, column-len(line))) + comment
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./=,:+@%-]+$`)

// quote quotes text for the shell.
func quote(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}
