# Tests that a poll ends when its token expires, even if its wait is longer.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::RawSocket;
use IO::Select;
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'auth.leeway' => '0s' });

sub poll
{
    my ($user, $wait, %claims) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->begin(GET => "/v1/poll?wait=$wait", Authorization => 'Bearer ' . token(sub => $user, %claims));
    return $raw;
}

# Two polls are simultaneous: the poll whose token expires ends first, although its wait is longer.
my $ends  = poll('u1', 60, exp => int(time()) + 3);
my $other = poll('u2', 8);
is($other->read_response->{status}, 204, 'a poll with a valid token lasts as long as its wait');
ok(IO::Select->new($ends->{link})->can_read(0), 'the poll with the expired token ends first');
my $response = $ends->read_response;
is($response->{status}, 204, 'the poll returns no notifications');
ok(length $response->{headers}{'clairon-pos'}, 'the poll returns the cursor to resume from');
is($relay->metric('clairon_gate_streams'), 0, 'no stream remains open');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');
done_testing();
