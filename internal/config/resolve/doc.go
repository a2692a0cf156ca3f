// Package resolve turns chronikd's configuration into the configs of a broker.
//
// Package config reads settings: names, units, bounds. Package configdef has the configs of Kafka:
// types, defaults, which one overrides which. This package joins them: it knows which configs are
// settings too, gives those that follow from other settings their values, and rejects settings
// that do not go together. It opens no file that a setting names.
package resolve
