// Package rolestest answers: what do tests of several packages below roles share? It has
// registries, configurations, policies, and environments for tests.
package rolestest
