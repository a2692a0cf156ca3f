package group

import (
	"errors"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/coordinator/group/format"
)

// maxInstructions bounds the program that an expression becomes. It may take as many
// steps for every byte of every topic's name, while the groups of a shard wait.
// Written out, 300 names of 30 letters are within it.
const maxInstructions = 10_000

var errTooLarge = errors.New("expression too large")

// compile makes a regular expression (RE2) that has to match a whole name.
func compile(expression string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err // in the member's own words
	}
	if prog, err := syntax.Compile(parsed.Simplify()); err != nil {
		return nil, err
	} else if len(prog.Inst) > maxInstructions {
		return nil, errTooLarge
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// shortened is an expression as an answer repeats it.
func shortened(expression string) string {
	if len(expression) <= maxShown {
		return expression
	}
	return strings.ToValidUTF8(expression[:maxShown], "") + "…"
}

const maxShown = 1 << 10

// wrong is what is wrong with an expression, without the expression.
func wrong(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return e.Code.String()
	}
	return err.Error()
}

// resolveRegexes records what new expressions match, and forgets those that nobody
// subscribes to.
func (s *Shard) resolveRegexes(g *group) {
	c := g.consumer
	for _, m := range c.list() {
		if re := m.meta.Regex; re != nil {
			if _, known := c.regexes[*re]; !known {
				s.emitRegex(g, *re, s.matches(*re))
			}
		}
	}
	s.dropRegexes(g)
}

// matches are the topics that an expression matches, sorted. One that this version
// can't compile, which another one has recorded, matches nothing.
func (s *Shard) matches(expression string) []string {
	re, err := compile(expression)
	if err != nil {
		return nil
	}
	var list []string
	for name := range s.topics.Names() {
		if re.MatchString(name) {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func (s *Shard) emitRegex(g *group, expression string, topics []string) {
	s.emit(format.Key{Type: format.TypeRegex, Group: g.id, Item: expression},
		format.Regex{Topics: topics, Version: s.topics.Version(), Time: s.nowMillis()})
}

// dropRegexes forgets expressions that nobody subscribes to.
func (s *Shard) dropRegexes(g *group) {
	c := g.consumer
	used := map[string]bool{}
	for _, m := range c.members {
		if m.meta.Regex != nil {
			used[*m.meta.Regex] = true
		}
	}
	for _, re := range slices.Sorted(maps.Keys(c.regexes)) {
		if !used[re] {
			s.emit(format.Key{Type: format.TypeRegex, Group: g.id, Item: re}, nil)
		}
	}
}

// rematch matches the group's expressions against topics that came or went.
func (s *Shard) rematch(g *group) {
	c := g.consumer
	for _, expression := range slices.Sorted(maps.Keys(c.regexes)) {
		old := c.regexes[expression].Topics
		next := old
		if s.changes.all {
			next = s.matches(expression)
		} else if re, err := compile(expression); err == nil {
			next = s.matchChanged(re, old, slices.Sorted(maps.Keys(s.changes.changed)))
		}
		if !slices.Equal(old, next) {
			s.emitRegex(g, expression, next)
			c.dirty = true
		}
	}
}

// matchChanged brings a list of matches up to date for some names.
func (s *Shard) matchChanged(re *regexp.Regexp, old, changed []string) []string {
	next := slices.Clone(old)
	for _, name := range changed {
		_, exists := s.topics.ByName(name)
		i, listed := slices.BinarySearch(next, name)
		switch match := exists && re.MatchString(name); {
		case match && !listed:
			next = slices.Insert(next, i, name)
		case !match && listed:
			next = slices.Delete(next, i, i+1)
		}
	}
	return next
}
