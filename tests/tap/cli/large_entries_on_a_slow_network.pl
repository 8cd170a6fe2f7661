# Tests that `clairon errors list` reads an entry of the error log whose reply takes longer than the timeout of the
# connection, because bytes of it arrive.
use strict;
use warnings;

use Clairon::Test;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');
my $id = '01890000-0000-7000-8000-000000000000';

$relay->stop;
$store->execute('XADD', $store->shared('errors'), '*', id => $id, reason => 'expired', attempts => 0, users => '["u1"]',
    data => JSON::encode_json({ payload => 'x' x 2_500_000 }), route => '');
my $slow = 40;
my $proxy = Clairon::Test::proxy($store->{socket}, edit => sub { select undef, undef, undef, 0.3 if length $_[0] > 30_000 && $slow-- > 0 });
my $began = time;
my ($code, $out, $err) = $relay->run('errors', 'list', '--json', '--store.url=' . $proxy->url('redis'));
cmp_ok(time - $began, '>', 11, 'the reply takes longer than the timeout');
is_deeply([ $code, $err ], [ 0, '' ], 'the entry is listed');
is(length JSON::decode_json($out)->{notification}{payload}, 2_500_000, 'the entry is complete');

done_testing();
