package controller

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

// IsInternal reports whether a name is that of a topic which the broker itself
// writes, and clients may not produce to.
func IsInternal(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state":
		return true
	}
	return false
}
