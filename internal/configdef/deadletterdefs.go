package configdef

// Names of the configs about dead letters of share groups (KIP-1191).
const (
	deadLetterTopic  = "errors.deadletterqueue.topic.name"
	deadLetterWhole  = "errors.deadletterqueue.copy.record.enable"
	deadLetterPrefix = "errors.deadletterqueue.topic.name.prefix"
	deadLetterEnable = "errors.deadletterqueue.group.enable"
)

// deadLetterDefs are the broker configs.
func deadLetterDefs() []*Def {
	return []*Def{
		brokerDef(deadLetterPrefix, String, "dlq.",
			"What the name of a topic for dead letters of share groups (KIP-1191) begins with, so that groups cannot write to other topics."),
	}
}

// topicDeadLetterDefs are those of a topic.
func topicDeadLetterDefs() []*Def {
	return []*Def{
		topicDef(deadLetterEnable, Boolean, "false", "Whether share groups may copy their dead letters to the topic (KIP-1191)."),
	}
}

// singleDeadLetterDefs are those of a single share group.
func singleDeadLetterDefs() []*Def {
	return []*Def{
		topicDef(deadLetterTopic, String, "",
			"The topic to which records are copied that a member rejects, or that reach the delivery limit (KIP-1191). Empty: they are not copied."),
		topicDef(deadLetterWhole, Boolean, "false",
			"Whether dead letters have the keys, values and headers of the records, and not only headers that say where the records are."),
	}
}
