package controller

import (
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
)

// MaxNameLength of a topic keeps "<topic>-<partition>" within what file systems take.
const MaxNameLength = 249

// CheckTopicName says whether a topic may have a name; the error is an *Error of
// kind InvalidTopic with Kafka's text.
func CheckTopicName(name string) error {
	const invalid = "Topic name is invalid: "
	switch {
	case name == "":
		return refuse(InvalidTopic, invalid+"the empty string is not allowed")
	case name == "." || name == "..":
		return refuse(InvalidTopic, invalid+"'%s' is not allowed", name)
	case len(name) > MaxNameLength:
		return refuse(InvalidTopic, invalid+"the length of '%s' is longer than the max allowed length %d", name, MaxNameLength)
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return refuse(InvalidTopic, invalid+"'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
		}
	}
	return nil
}

func nameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-'
}

// promised are the configs on which what the broker acknowledges from an internal topic
// rests: what is committed stays, on disk, whichever broker leads.
var promised = []string{"cleanup.policy", configdef.DurabilityProfile, "unclean.leader.election.enable"}

// checkFixedConfigs refuses to change such a config of an internal topic.
func checkFixedConfigs(res Resource, before, after map[string]string) error {
	if res.Type != TopicResource || !IsInternal(res.Name) {
		return nil
	}
	for _, name := range promised {
		if was, is := before[name], after[name]; was != is {
			return refuse(InvalidConfig, "%s of the internal topic %s can't be changed from %q to %q: "+
				"what the broker has acknowledged in it could be lost. Leave it out, or in a request that replaces all configs "+
				"give it its present value.", name, res.Name, was, is)
		}
	}
	return nil
}

// IsInternal reports whether a name is that of a topic which the broker itself
// writes, and clients may not produce to.
func IsInternal(name string) bool { return metadata.IsInternal(name) }
