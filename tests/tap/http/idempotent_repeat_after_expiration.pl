# Tests that a repeated POST returns the first id even after the notification has expired.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use POSIX qw(strftime);
use Test::More;
use Time::HiRes qw(time);

my $store = Clairon::Test::store();
my ($relay, $second) = map { Clairon::Test::relay(undef, $store, roles => 'gate') } 1, 2;

sub post
{
    my ($at, $body, $key, %claims) = @_;
    return Clairon::Test::RawSocket->new($at)->request(POST => '/v1/notifications', ':body' => $body,
        Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true, %claims), (defined $key ? ('Idempotency-Key' => $key) : ()));
}

sub to
{
    my ($expiration, $text) = @_;
    return { metadata => { expiration => $expiration }, payload => { text => $text },
        routing => { audience => { type => 'USER', targets => ['u1'] } } };
}
sub at { return strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $_[0]) }

my $ends  = int(time()) + 3;
my $body  = to(at($ends), 'a');
my $first = post($relay, $body, 'k');
is($first->{status}, 201, 'a request before the expiration is accepted');
wait_until('the expiration has passed', sub { time() > $ends });
for my $case ([ 'the relay that stored the notification' => $relay ], [ 'another relay' => $second ])
{
    my ($name, $at) = @$case;
    my $again = post($at, $body, 'k');
    is($again->{status}, 200, "$name: a repeat after the expiration is accepted");
    is($again->{headers}{'idempotency-replayed'}, 'true', "$name: the response is marked as a repeat");
    is($again->{json}{id}, $first->{json}{id}, "$name: the response contains the first id");
    is(post($at, to(at($ends), 'b'), 'k')->{status}, 422, "$name: another expired body with this key is rejected");
    for my $key ('new', undef)
    {
        my $late = post($at, $body, $key);
        is($late->{status}, 400, "$name: an expired notification with " . ($key // 'no') . ' key is rejected');
        like($late->{json}{detail}, qr/metadata\.expiration/, "$name: the problem details contain the field");
    }
}
is(post($relay, to(at(time() + 3600), 'c'), 'new')->{status}, 201, 'the key of a rejected request can be used again');
is($store->execute('XLEN', $store->of($first->{json}{id}, 'stream')), 2, 'no other notification is stored');

# A claim that is not the JSON value true has no effect.
for my $value ('yes', 1, 'true', [], { a => 1 })
{
    my $name = JSON->new->allow_nonref->canonical->encode($value);
    is(post($relay, to(at(time() + 60), 'd'), undef, publish => $value)->{status}, 403, "publish: $name is forbidden");
    is($relay->client('u2', publish => $value, admin => $value)->wait_for('connected')->{user}, 'u2', "publish: $name connects");
}
done_testing();
