# Clairon::Test::Differential::Workload: random transactions of several sessions, as one SQL script.
#
#   my $work = Clairon::Test::Differential::Workload->new(
#       values => $types, transactions => 3000, folder => $dir);
#   $work->setup_sql;         # run once, before the slots are created
#   $work->write("$dir/w.sql");   # the transactions; dblink provides the sessions
#
# The seed determines the order of all statements. Each table belongs to one session, so no session waits for another.
# After each change of a table's definition, rules or replica identity, work.log_shape writes the new definitions to WAL
# as a message, so a WAL reader has the definitions at each position, even after rollbacks.
package Clairon::Test::Differential::Workload;

use strict;
use warnings;

use PostgreSQL::Test::Utils qw(slurp_file);
use Storable qw(dclone);

use parent -norequire, 'Clairon::Test::Differential::Shapes';

use Clairon::Test::Differential::Shapes;
use Clairon::Test::Differential::Values qw(pick chance whole literal);

my $SESSIONS = 4;
my $TABLES = 5;    # approximate number of tables per session

sub new
{
    my ($class, %options) = @_;
    my $self = bless { %options, number => 0, begun => 0, files => 0 }, $class;
    $self->{sessions} =
        [map { { name => "s$_", tables => {}, saved => [], attributes => ['a integer', 'b text'] } }
            1 .. $SESSIONS];
    return $self;
}

sub setup_sql
{
    my ($self) = @_;
    my $types = join '',
        map {"CREATE TYPE row_$_->{name} AS (a integer, b text);"} @{ $self->{sessions} };
    return $self->{values}->setup_sql . $types
        . slurp_file(__FILE__ =~ s/\w+\.pm$/functions.sql/r);
}

# ---- statements

sub put { my ($self, $text) = @_; print { $self->{out} } $text, "\n"; return }

# Runs one statement, or several as one transaction, in a session.
sub run
{
    my ($self, $session, @statements) = @_;
    my $tag = 'q' . ++$self->{number};
    return $self->put(
        "SELECT dblink_exec('$session->{name}', \$$tag\$" . join('; ', @statements) . "\$$tag\$);");
}

# Returns one of few users, so that rows move between users, or a small number for conditions.
sub role_value
{
    my ($column) = @_;
    return chance(0.15) ? undef : whole(-1, 3) if $column->{role} eq 'n';
    return chance(0.1) ? undef : pick('u1', 'u2', 'u3', '', "z\xc3\xa9 \"o\\")
        if $column->{type} eq 'text';
    return '{'
        . join(',',
        map { pick('u1', 'u2', 'u3', 'u4', 'NULL', '""', '"z, \\"o"') } 1 .. whole(0, 4))
        . '}';
}

sub value
{
    my ($self, $session, $column) = @_;
    my $type = $column->{type};
    return role_value($column) if $column->{role};
    return $self->{values}->random($type) unless $type =~ /^row_/;
    return undef if chance(0.15);
    my $row = sub {
        '(' . join(
            ',',
            map {
                my $text = $self->{values}->random(s/^\S+ //r);
                defined $text ? '"' . ($text =~ s/(["\\])/$1$1/gr) . '"' : ''
            } @{ $session->{attributes} }) . ')';
    };
    return $row->() unless $type =~ /\[\]$/;
    return '{'
        . join(',',
        map { chance(0.1) ? 'NULL' : Clairon::Test::Differential::Values::quoted_element($row->()) }
            0 .. whole(0, 2))
        . '}';
}

# ---- changes of rows

sub target
{
    my ($session) = @_;
    my @keys = sort keys %{ $session->{tables} };
    return @keys ? $session->{tables}{ pick(@keys) } : undef;
}

sub written
{
    return grep { !$_->{generated} } @{ $_[0]{columns} };
}

sub insert
{
    my ($self, $session, $table) = @_;
    my @columns = written($table);
    my @rows = map {
        my $id = $table->{next}++;
        '(' . join(',', $id, map { literal($self->value($session, $_)) } @columns) . ')';
    } 1 .. pick(1, 1, 1, 2, 4);
    return $self->run($session,
              "INSERT INTO $table->{name} ("
            . join(',', 'id', map { $_->{name} } @columns)
            . ') VALUES '
            . join(',', @rows));
}

sub copy
{
    my ($self, $session, $table) = @_;
    my @columns = written($table);
    my $path = "$self->{folder}/copy" . ++$self->{files};
    open my $file, '>', $path or die "$path: $!";
    for (1 .. whole(2, 15))
    {
        my @values = ($table->{next}++, map { $self->value($session, $_) } @columns);
        print $file join(
            "\t",
            map {
                !defined $_
                    ? '\\N'
                    : s/([\\\t\n\r])/{"\\"=>'\\\\',"\t"=>'\\t',"\n"=>'\\n',"\r"=>'\\r'}->{$1}/ger
            } @values),
            "\n";
    }
    close $file or die "$path: $!";
    return $self->run($session,
        "COPY $table->{name} (" . join(',', 'id', map { $_->{name} } @columns) . ") FROM '$path'");
}

sub some_rows
{
    my ($table) = @_;
    return 'id IN (' . join(',', map { whole(1, $table->{next}) } 1 .. whole(1, 6)) . ')';
}

sub update
{
    my ($self, $session, $table) = @_;
    my @columns = written($table);
    return $self->run($session,
              "UPDATE $table->{name} SET id = "
            . $table->{next}++
            . ' WHERE id = '
            . whole(1, $table->{next}))
        if chance(0.12) || !@columns;
    my @roles = grep { $_->{role} } @columns;
    @columns = @roles if @roles && chance(0.5);
    my %sets = map { my $c = pick(@columns); $c->{name} => literal($self->value($session, $c)) }
        1 .. whole(1, 2);
    return $self->run($session,
              "UPDATE $table->{name} SET "
            . join(',', map {"$_ = $sets{$_}"} sort keys %sets)
            . ' WHERE '
            . some_rows($table));
}

sub touch
{
    my ($self, $session, $table) = @_;
    return $self->run($session, "UPDATE $table->{name} SET id = id WHERE " . some_rows($table));
}

sub delete_rows
{
    my ($self, $session, $table) = @_;
    return $self->run($session, "DELETE FROM $table->{name} WHERE " . some_rows($table));
}

sub truncate_some
{
    my ($self, $session, $table) = @_;
    my $other = target($session);
    my %names = map { $_->{name} => 1 } $table, chance(0.3) ? $other : ();
    return $self->run($session,
        'TRUNCATE ' . join(',', sort keys %names) . pick('', ' RESTART IDENTITY', ' CASCADE'));
}

# ---- transactions

my @rows =
    ((\&insert) x 7, (\&update) x 11, (\&copy) x 2, (\&delete_rows) x 4, \&touch, \&truncate_some);

sub change
{
    my ($self, $session) = @_;
    my $table = target($session);
    my $count = keys %{ $session->{tables} };
    return $self->create($session) if !$table || chance($count < $TABLES ? 0.1 : 0.005);
    return $self->drop($session, $table) if chance($count > $TABLES ? 0.03 : 0.003);
    return $self->alter_row_type($session) if chance(0.01);
    return $self->change_detached($session, $table)
        if Clairon::Test::Differential::Shapes::detached($table);
    return chance(0.1)
        ? $self->change_shape($session, $table)
        : pick(@rows)->($self, $session, $table);
}

sub saved_state
{
    my ($session) = @_;
    return dclone({ tables => $session->{tables}, attributes => $session->{attributes} });
}

sub restore
{
    my ($session, $saved) = @_;
    my $copy = dclone($saved);
    $session->{$_} = $copy->{$_} for qw(tables attributes);
    return;
}

sub finish
{
    my ($self, $session) = @_;
    my $saved = $session->{saved}[0];
    $session->{saved} = [];
    if (chance(0.04))
    {
        my $gid = 'p' . ++$self->{number};
        $session->{prepared} = { gid => $gid, saved => $saved };
        return $self->run($session, "PREPARE TRANSACTION '$gid'");
    }
    return $self->run($session, 'COMMIT') if chance(0.9);
    restore($session, $saved);
    return $self->run($session, 'ROLLBACK');
}

sub end_prepared
{
    my ($self, $session) = @_;
    my $prepared = delete $session->{prepared};
    my $commit = chance(0.7);
    restore($session, $prepared->{saved}) unless $commit;
    return $self->run($session, ($commit ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$prepared->{gid}'");
}

sub savepoint
{
    my ($self, $session) = @_;
    my $depth = @{ $session->{saved} };
    if ($depth < 2 || chance(0.4))
    {
        push @{ $session->{saved} }, saved_state($session);
        return $self->run($session, "SAVEPOINT v$depth");
    }
    my $to = whole(1, $depth - 1);
    if (chance(0.3))
    {
        splice @{ $session->{saved} }, $to;
        return $self->run($session, "RELEASE v$to");
    }
    restore($session, $session->{saved}[$to]);
    splice @{ $session->{saved} }, $to + 1;

    # Sometimes an error precedes ROLLBACK TO.
    $self->put(
        "SELECT dblink_exec('$session->{name}', 'DO \$\$ BEGIN PERFORM 1 / 0; END \$\$', false);")
        if chance(0.3);
    return $self->run($session, "ROLLBACK TO v$to");
}

sub step
{
    my ($self, $session) = @_;
    return chance(0.3) ? $self->end_prepared($session) : undef if $session->{prepared};
    if (!@{ $session->{saved} })
    {
        $self->{begun}++;
        return $self->change($session) if chance(0.3);
        push @{ $session->{saved} }, saved_state($session);
        return $self->run($session, 'BEGIN');
    }
    return $self->finish($session) if chance(0.2);
    return $self->savepoint($session) if chance(0.12);
    return $self->change($session);
}

sub write
{
    my ($self, $path) = @_;
    open $self->{out}, '>', $path or die "$path: $!";
    $self->put("\\set ON_ERROR_STOP on\nSET client_min_messages = error;");
    for my $session (@{ $self->{sessions} })
    {
        $self->put("SELECT dblink_connect('$session->{name}', :'connection');");
        $self->run($session, "SET client_min_messages = error; SET lock_timeout = '10s'",
            "CALL work.log_row_type('row_$session->{name}')");
    }
    # VACUUM at fixed points replaces autovacuum, which could deadlock with a session.
    my $swept = 0;
    while ($self->{begun} < $self->{transactions})
    {
        $self->step(pick(@{ $self->{sessions} }));
        next if $self->{begun} < $swept + 250;
        $self->put('VACUUM pg_class, pg_attribute, pg_type, pg_depend, pg_index; CHECKPOINT;');
        $swept = $self->{begun};
    }
    for my $session (@{ $self->{sessions} })
    {
        $self->run($session, 'COMMIT') if @{ $session->{saved} };
        $self->end_prepared($session) if $session->{prepared};
    }
    close $self->{out} or die "$path: $!";
    return;
}

1;
