# Tests that store settings with a risk of lost notifications are logged with a hint.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

sub warned
{
    my (@options) = @_;
    my $store = Clairon::Test::store(options => \@options);
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');
    my $log   = $relay->log_text;
    $relay->stop;
    $store->stop;
    return [ $log =~ /component=store level=warn .*?msg=(.*)/g ];
}

is_deeply(warned(), [], 'safe settings cause no warning');
like("@{ warned('--appendonly', 'no') }", qr/^"append-only file disabled: .*" hint="run CONFIG SET appendonly yes, then CONFIG REWRITE"$/, 'a store without an append-only file causes a warning');
like("@{ warned('--maxmemory-policy', 'allkeys-lru') }", qr/^"eviction enabled: .*" hint="run CONFIG SET maxmemory-policy noeviction, then CONFIG REWRITE"$/,
    'a store with an eviction policy causes a warning');
SKIP: {
    skip 'only KeyDB has active-replica', 1 unless $ENV{STORE_SERVER} =~ /keydb/;
    like("@{ warned('--active-replica', 'yes') }", qr/^"active-replica enabled: .*" hint="set active-replica no in keydb.conf, then restart KeyDB"$/, 'a store with active-replica causes a warning');
}

done_testing();
