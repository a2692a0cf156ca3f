package output

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Path is the prefix of a format that prints parts of the JSON answer, as kubectl does: text with
// paths in braces. A path has names, [N] and [*]; the library of kubectl has much more, and brings
// the whole of its client.
const Path = "jsonpath="

// isPath reports whether the format has a path.
func (f Format) isPath() bool { return strings.HasPrefix(string(f), Path) }

// Check returns what is wrong with a path in the format.
func (f Format) Check() error {
	if !f.isPath() {
		return nil
	}
	_, err := f.parts()
	return err
}

// part is a text, or a path if it has steps.
type part struct {
	text  string
	steps []string // names, or [N], [*]
	path  bool
}

var (
	braces  = regexp.MustCompile(`\{[^{}]*\}`)
	aStep   = regexp.MustCompile(`^(?:\.([\w-]+)|\['([^']+)'\]|(\[(?:-?\d+|\*)\]))`)
	literal = regexp.MustCompile(`^"([^"]*)"$`)
)

// parts splits a path format.
func (f Format) parts() (all []part, err error) {
	text := strings.TrimPrefix(string(f), Path)
	if !strings.ContainsAny(text, "{}") {
		text = "{" + text + "}"
	}
	end := 0
	for _, at := range braces.FindAllStringIndex(text, -1) {
		inside := text[at[0]+1 : at[1]-1]
		all = append(all, part{text: text[end:at[0]]})
		end = at[1]
		if l := literal.FindStringSubmatch(inside); l != nil {
			all = append(all, part{text: strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(l[1])})
			continue
		}
		p := part{text: inside, path: true}
		for rest := strings.TrimPrefix(inside, "$"); rest != "" && rest != "."; {
			m := aStep.FindStringSubmatch(rest)
			if m == nil {
				return nil, fmt.Errorf("%q is no path of names, [N] and [*], such as {[*].topic}; -o json and jq can do more", inside)
			}
			p.steps = append(p.steps, m[1]+m[2]+m[3])
			rest = rest[len(m[0]):]
		}
		all = append(all, p)
	}
	if all = append(all, part{text: text[end:]}); strings.ContainsAny(text[end:], "{}") {
		return nil, fmt.Errorf("%q has a brace without its other one", text)
	}
	return all, nil
}

// printPath prints the parts of v, and a line feed.
func printPath(w io.Writer, f Format, v any) error {
	all, err := f.parts()
	if err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print by a path: %w", err)
	}
	var root yaml.Node // keeps the order of fields, and numbers as they are
	if err := yaml.Unmarshal(text, &root); err != nil {
		return fmt.Errorf("print by a path: %w", err)
	}
	var b strings.Builder
	for _, p := range all {
		if !p.path {
			b.WriteString(p.text)
			continue
		}
		found := root.Content
		for _, step := range p.steps {
			if found, err = take(found, step); err != nil {
				return fmt.Errorf("%s%s: %w", Path, p.text, err)
			}
		}
		for i, n := range found {
			if i > 0 {
				b.WriteByte(' ')
			}
			if n.Kind == yaml.ScalarNode {
				b.WriteString(n.Value)
				continue
			}
			var x any
			if err := n.Decode(&x); err != nil {
				return err
			}
			line, err := json.Marshal(x)
			if err != nil {
				return err
			}
			b.Write(line)
		}
	}
	return write(w, []byte(strings.TrimSuffix(b.String(), "\n")+"\n"))
}

// take returns what a step leads to from some values.
func take(from []*yaml.Node, step string) (found []*yaml.Node, err error) {
	var names []string
	for _, n := range from {
		list := n.Kind == yaml.SequenceNode
		switch at, index := strings.CutPrefix(step, "["); {
		case index && !list:
			return nil, fmt.Errorf("%s is of a list, and this is none", step)
		case step == "[*]":
			found = append(found, n.Content...)
		case index:
			i, err := strconv.Atoi(strings.TrimSuffix(at, "]"))
			if i < 0 {
				i += len(n.Content)
			}
			if err != nil || i < 0 || i >= len(n.Content) {
				return nil, fmt.Errorf("%s is not in a list of %d", step, len(n.Content))
			}
			found = append(found, n.Content[i])
		case list:
			return nil, fmt.Errorf("%q is looked for in a list; write [*].%s for all of its elements", step, step)
		default:
			for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
				if names = append(names, n.Content[i].Value); n.Content[i].Value == step {
					found = append(found, n.Content[i+1])
				}
			}
		}
	}
	if len(found) == 0 && len(names) > 0 {
		slices.Sort(names)
		return nil, fmt.Errorf("there is no field %s; the fields are %s", step, strings.Join(slices.Compact(names), ", "))
	}
	return found, nil
}
