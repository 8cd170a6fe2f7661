# Tests that each device of a user hears of all acknowledgements of another device, many at a time too; and that a device that does
# not read them is closed as a slow client, since it would lack some.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket;
use Test::More;

use constant FRAME => 1024;    # ids in a frame, at most

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');

sub unknown_ids { my ($from) = @_; return [ map { sprintf '01900000-0000-7000-8000-%012x', $from + $_ } 1 .. FRAME ] }
sub acked { my ($client) = @_; return scalar map { @{ $_->{ids} } } grep { $_->{t} eq 'acked' } @{ $client->{messages} } }

# After a pause, the relay reads a frame of each phone in one loop iteration.
my $laptop = $relay->client('u1');
my @phones = map { $relay->client('u1') } 1 .. 6;
kill STOP => $relay->pid;
$phones[ $_ - 1 ]->send({ t => 'ack', ids => unknown_ids(FRAME * $_) }) for 1 .. 6;
kill CONT => $relay->pid;
$laptop->run_until('all acknowledgements arrive', sub { acked($laptop) >= 6 * FRAME || $laptop->{closed} });
is(acked($laptop), 6 * FRAME, 'the other device receives each of them, once');
$_->close for $laptop, @phones;

my $phone  = $relay->client('u1');
my $asleep = Clairon::Test::RawSocket->user($relay, 'u1');
my $at     = 10;
wait_until(
    'the relay closes the device that does not read',
    sub {
        $phone->send({ t => 'ack', ids => unknown_ids(FRAME * $at++) }) for 1 .. 10;
        Clairon::Test::Client::run_for(0.05);
        return $relay->log_text =~ /code=4101/;
    });
is($asleep->ends_with(4101, 'a device that does not read')->{code}, 4101, 'it receives 4101 behind its frames');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');
done_testing();
