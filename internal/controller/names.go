package controller

import (
	"github.com/chronik-io/chronik/internal/configdef"
	"github.com/chronik-io/chronik/internal/metadata"
)

// MaxNameLength is the maximum length of a topic name: it keeps "<topic>-<partition>" within the
// limit of file systems.
const MaxNameLength = 249

// CheckTopicName returns why a topic name is invalid, as an *Error of kind InvalidTopic with
// Kafka's text, or nil.
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
			return refuse(InvalidTopic, invalid+"'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
				name)
		}
	}
	return nil
}

func nameByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-'
}

// fixedConfigs are configs that the durability of internal topics depends on: they keep committed
// records, on disk, whichever broker leads.
var fixedConfigs = []string{"cleanup.policy", configdef.DurabilityProfile, "unclean.leader.election.enable", configdef.RemoteEnable}

// checkFixedConfigs refuses to change such a config of an internal topic.
func checkFixedConfigs(res Resource, before, after map[string]string) error {
	if res.Type != TopicResource || !metadata.IsInternal(res.Name) {
		return nil
	}
	for _, name := range fixedConfigs {
		if was, is := before[name], after[name]; was != is {
			return refuse(InvalidConfig, "%s of the internal topic %s can't be changed from %q to %q: "+
				"what the broker has acknowledged in it could be lost. Leave it out, or in a request that replaces all configs "+
				"give it its present value.", name, res.Name, was, is)
		}
	}
	return nil
}
