# Does a poll end with its token, however long it was to wait?
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

# Of two that begin together, the one whose token ends first is answered first, though it was to wait longer.
my $ends  = poll('u1', 60, exp => int(time()) + 3);
my $other = poll('u2', 8);
is($other->read_response->{status}, 204, 'a poll with a token that lasts waits as long as it asked for');
ok(IO::Select->new($ends->{link})->can_read(0), 'one whose token ended was answered before');
my $answer = $ends->read_response;
is($answer->{status}, 204, 'with nothing');
ok(length $answer->{headers}{'clairon-pos'}, 'and the position to go on from, with a new token');
is($relay->metric('clairon_gate_streams'), 0, 'neither is held any more');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');
done_testing();
