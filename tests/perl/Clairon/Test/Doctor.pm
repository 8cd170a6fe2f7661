# Clairon::Test::Doctor: runs `clairon doctor` with a relay's settings and reads its findings.
package Clairon::Test::Doctor;

use strict;
use warnings;

use Exporter qw(import);
use JSON ();
use Test::More;

our @EXPORT_OK = qw(doctor failed_checks finds warns repaired);

# The relay with the checked settings, which the test sets.
our $relay;

# Returns the command's exit status, stdout and stderr.
sub doctor { return $relay->run('doctor', @_) }

# Returns the failed checks by area and name, and asserts that exit status and count agree with them.
sub failed_checks
{
    my ($code, $out, $err) = doctor('--json', @_);
    my $report = eval { JSON::decode_json($out) } or die "no JSON: $out$err";
    my %wrong = map { ("$_->{area}: $_->{check}" => $_) } grep { !$_->{ok} } @{ $report->{checks} };
    my $count = grep { !$_->{ok} } @{ $report->{checks} };
    is_deeply([ $code, $report->{errors}, $report->{ok} ? 1 : 0 ], [ $count ? 1 : 0, $count, $count ? 0 : 1 ],
        'exit status and count agree with the checks');
    return \%wrong;
}

# finds('cause', 'area: check', qr/detail/, qr/hint/, @arguments): expects that failed check; returns all failed
# checks.
sub finds
{
    my ($what, $check, $detail, $hint, @arguments) = @_;
    my $wrong = failed_checks(@arguments);
    like($wrong->{$check} ? $wrong->{$check}{detail} : "not found, but @{[ sort keys %$wrong ]}", $detail, "$what is reported");
    like($wrong->{$check} ? $wrong->{$check}{hint} : '', $hint, "$what has a hint that fixes it");
    return $wrong;
}

# warns('cause', 'area: check', qr/detail/, qr/hint/, @arguments): expects that warning and no failed check.
sub warns
{
    my ($what, $check, $detail, $hint, @arguments) = @_;
    my ($code, $out, $err) = doctor('--json', @arguments);
    my $report = eval { JSON::decode_json($out) } or die "no JSON: $out$err";
    my @warnings = grep { $_->{level} eq 'warn' } @{ $report->{checks} };
    my ($found) = grep { "$_->{area}: $_->{check}" eq $check } @warnings;
    is_deeply([ $code, $report->{errors}, $report->{warnings} ], [ 0, 0, scalar @warnings ], "$what fails no check and exits with 0")
      or diag $out;
    like($found ? $found->{detail} : 'not found, but ' . join(', ', map { $_->{check} } @warnings), $detail, "$what is reported as a warning");
    like($found ? $found->{hint} : '', $hint, "$what has a hint");
    return $found;
}

# Expects no failed check, once the relay is ready after a restart.
sub repaired
{
    my ($what, @arguments) = @_;
    my $is_tls = $relay->{settings}{'gate.tls_cert'};    # then this request has no response
    my $wrong;
    # On a busy machine, a relay that was ready may not be so for a moment.
    for (1 .. 3)
    {
        Clairon::Test::wait_until('the relay is ready', sub { ($relay->get($relay->readiness))[0] == ($is_tls ? 0 : 200) });
        $wrong = failed_checks(@arguments);
        last if "@{[ keys %$wrong ]}" ne 'gate: relay';
    }
    is_deeply($wrong, {}, $what) or die 'the previous fault is not repaired';
    return;
}

1;
