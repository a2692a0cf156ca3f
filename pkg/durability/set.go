package durability

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrUnknownProfile is matched by the error of Set.Lookup.
var ErrUnknownProfile = errors.New("unknown durability profile")

// Set holds the profiles that one broker knows. It never changes, so it may be shared.
type Set struct {
	profiles []Profile
}

// NewSet returns the built-in profiles and extra. It fails if one of extra is invalid or has the
// name of another: a built-in profile keeps its meaning.
func NewSet(extra ...Profile) (*Set, error) {
	s := &Set{profiles: Builtin()}
	builtin := len(s.profiles)
	for _, p := range extra {
		if err := p.Validate(); err != nil {
			return nil, err
		}
		switch i := s.index(p.Name); {
		case i >= builtin:
			return nil, fmt.Errorf("durability profile %q is defined twice: rename one of the two", p.Name)
		case i >= 0:
			return nil, fmt.Errorf("durability profile %q is built in and cannot be redefined: choose another name", p.Name)
		}
		s.profiles = append(s.profiles, p)
	}
	return s, nil
}

// index returns the position of a profile, or -1.
func (s *Set) index(name string) int {
	return slices.IndexFunc(s.profiles, func(p Profile) bool { return p.Name == name })
}

// Lookup returns the profile of that name. The error lists the known names.
func (s *Set) Lookup(name string) (Profile, error) {
	if i := s.index(name); i >= 0 {
		return s.profiles[i], nil
	}
	return Profile{}, fmt.Errorf("%w %q: the known ones are %s", ErrUnknownProfile, name, strings.Join(s.Names(), ", "))
}

// All returns the profiles: the built-in ones in the order of Builtin, then the others in the order
// given to NewSet. The caller owns the slice.
func (s *Set) All() []Profile { return slices.Clone(s.profiles) }

// Names returns the names in the order of All.
func (s *Set) Names() []string {
	names := make([]string, len(s.profiles))
	for i, p := range s.profiles {
		names[i] = p.Name
	}
	return names
}
