# Clairon::Test::Doctor: runs `clairon doctor` on a relay's settings, and reads what it found.
package Clairon::Test::Doctor;

use strict;
use warnings;

use Exporter qw(import);
use JSON ();
use Test::More;

our @EXPORT_OK = qw(doctor wrong finds warns mended);

# The relay whose file is read; a test sets it.
our $relay;

# The command's exit code, its output and its errors.
sub doctor { return $relay->run('doctor', @_) }

# What is wrong, by area and check; dies unless the exit code agrees.
sub wrong
{
    my ($code, $out, $err) = doctor('--json', @_);
    my $answer = eval { JSON::decode_json($out) } or die "no JSON: $out$err";
    my %wrong = map { ("$_->{area}: $_->{check}" => $_) } grep { !$_->{ok} } @{ $answer->{checks} };
    my $count = grep { !$_->{ok} } @{ $answer->{checks} };
    is_deeply([ $code, $answer->{wrong}, $answer->{ok} ? 1 : 0 ], [ $count ? 1 : 0, $count, $count ? 0 : 1 ],
        'the exit code and the sum are those of the checks');
    return \%wrong;
}

# finds('what is broken', 'area: check', qr/detail/, qr/hint/, @words): that, and nothing else beside `also`.
sub finds
{
    my ($what, $check, $detail, $hint, @words) = @_;
    my $wrong = wrong(@words);
    like($wrong->{$check} ? $wrong->{$check}{detail} : "not found, but @{[ sort keys %$wrong ]}", $detail, "$what: found");
    like($wrong->{$check} ? $wrong->{$check}{hint} : '', $hint, "$what: with what mends it");
    return $wrong;
}

# warns('what is doubtful', 'area: check', qr/detail/, qr/hint/, @words): a warning, and nothing that is wrong.
sub warns
{
    my ($what, $check, $detail, $hint, @words) = @_;
    my ($code, $out, $err) = doctor('--json', @words);
    my $answer = eval { JSON::decode_json($out) } or die "no JSON: $out$err";
    my @warnings = grep { $_->{level} eq 'warn' } @{ $answer->{checks} };
    my ($found) = grep { "$_->{area}: $_->{check}" eq $check } @warnings;
    is_deeply([ $code, $answer->{wrong}, $answer->{warnings} ], [ 0, 0, scalar @warnings ], "$what: exit code 0, as nothing is wrong")
      or diag $out;
    like($found ? $found->{detail} : 'not found, but ' . join(', ', map { $_->{check} } @warnings), $detail, "$what: a warning");
    like($found ? $found->{hint} : '', $hint, "$what: with a hint");
    return $found;
}

# A relay that runs needs a moment to come back.
sub mended { Clairon::Test::wait_until('the relay is ready', sub { ($relay->get('/readyz'))[0] != 503 }); is_deeply(wrong(), {}, $_[0]) or BAIL_OUT('what was broken must be whole again'); return }

1;
