# Tests that a relay ends while the reply of the store for a trace is outstanding. Only a sanitizer detects a fault here:
# the store calls back after the gate is closed.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $late  = Clairon::Test::delayed_replies($store->{socket});
my $relay = Clairon::Test::relay(undef, $late, roles => 'gate');

$late->hold(trace => $late->script('trace'));
my $raw = Clairon::Test::RawSocket->new($relay);
$raw->begin(GET => '/v1/notifications/0190f5c8-1111-7000-8000-000000000001',
    Authorization => 'Bearer ' . token(sub => 'root', admin => JSON::true));
$late->wait_held('trace');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
