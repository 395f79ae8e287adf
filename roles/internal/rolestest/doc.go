// Package rolestest answers: what do tests of several packages below roles share? It has
// registries, configurations, policies, environments, and a job to be placed.
package rolestest
