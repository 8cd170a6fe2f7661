# Clairon::Test::Differential::Shapes: random changes of table definitions, rules and replica identity.
#
# Methods of Clairon::Test::Differential::Workload, which describes its sessions and tables.
package Clairon::Test::Differential::Shapes;

use strict;
use warnings;

use Clairon::Test::Differential::Values qw(pick chance whole literal ident unquoted);

# Returns a common or an unusual name.
sub fresh_name
{
    my ($self, $stem) = @_;
    my $number = ++$self->{number};
    return ident(
              $stem
            . $number
            . pick(
            '', '', '', ' ', '"', "'", "\n", "\xf0\x9f\x98\x80", 'É', '\\', '.', ',', '[]:', '<>',
            '/', '%', "\x01"));
}

sub random_type
{
    my ($self, $session) = @_;
    return pick("row_$session->{name}", "row_$session->{name}\[]") if chance(0.08);
    return pick($self->{values}->types);
}

sub log_shape_sql { my ($table) = @_; return "CALL work.log_shape(" . literal($table->{name}) . ')' }

sub new_column
{
    my ($self, $session) = @_;
    my $column = { name => $self->fresh_name('c'), type => $self->random_type($session) };
    return $column;
}

sub column_sql
{
    my ($column) = @_;
    return "$column->{name} $column->{type}"
        . ($column->{generated} ? " GENERATED ALWAYS AS (id * 2::bigint) STORED" : '');
}

sub create
{
    my ($self, $session) = @_;
    my $schema = chance(0.15) ? '"Odd ""schema""".' : chance(0.5) ? 'public.' : '';
    my $table = { name => $schema . $self->fresh_name('t'), next => 1, schema => $schema };
    $table->{columns} = [map { $self->new_column($session) } 1 .. whole(0, 6)];
    push @{ $table->{columns} },
        { name => $self->fresh_name('g'), type => 'bigint', generated => 1 }
        if chance(0.2);
    unshift @{ $table->{columns} },
        { name => $self->fresh_name('who'), type => pick('text', 'text[]'), role => 'target' },
        { name => $self->fresh_name('n'), type => 'integer', role => 'n' }
        if chance(0.6);
    my $keyed = chance(0.75);
    my @sql = (
        "CREATE TABLE $table->{name} ("
            . join(
            ', ', 'id int' . ($keyed ? ' PRIMARY KEY' : ''),
            map { column_sql($_) } @{ $table->{columns} })
            . ')');

    if (chance(0.15))
    {
        $sql[0] .= ' PARTITION BY RANGE (id)';
        push @sql, $self->partition($table, 'MINVALUE', '20'),
            $self->partition($table, '20', '60'), $self->partition($table, '60', 'MAXVALUE');
    }
    push @sql, "ALTER TABLE $table->{name} REPLICA IDENTITY FULL"
        if chance(0.3) && !$table->{parts};
    push @sql, 'CALL work.watch(' . literal($table->{name}) . ')' if chance(0.7);
    push @sql, watch_target_sql($table, $table->{name}) if chance(0.8);
    $session->{tables}{ $table->{name} } = $table;
    return $self->run($session, @sql, log_shape_sql($table));
}

sub partition
{
    my ($self, $table, $from, $to) = @_;
    my $name = $table->{schema} . $self->fresh_name('p');
    push @{ $table->{parts} }, { name => $name, bounds => "FROM ($from) TO ($to)", attached => 1 };
    my @sql = "CREATE TABLE $name PARTITION OF $table->{name} FOR VALUES FROM ($from) TO ($to)";
    push @sql, "ALTER TABLE $name REPLICA IDENTITY FULL" if chance(0.4);
    push @sql, 'CALL work.watch(' . literal($name) . ')' if chance(0.2);
    return @sql;
}

sub drop
{
    my ($self, $session, $table) = @_;
    delete $session->{tables}{ $table->{name} };
    return $self->run($session, join '; ', map {"DROP TABLE $_"} $table->{name},
        map { $_->{attached} ? () : $_->{name} } @{ $table->{parts} // [] });
}

sub add_column
{
    my ($self, $session, $table) = @_;
    return $self->insert($session, $table) if @{ $table->{columns} } > 9;
    my $column = $self->new_column($session);
    my $default = chance(0.5) ? ' DEFAULT ' . literal($self->value($session, $column)) : '';
    $default = '' if length $default > 1000;    # stored in pg_attribute, which has no TOAST
    push @{ $table->{columns} }, $column;
    return $self->run($session,
        "ALTER TABLE $table->{name} ADD COLUMN " . column_sql($column) . $default,
        log_shape_sql($table));
}

sub drop_column
{
    my ($self, $session, $table) = @_;
    my @columns = @{ $table->{columns} };
    return $self->add_column($session, $table) unless @columns;
    my $column = splice @columns, rand @columns, 1;
    $table->{columns} = \@columns;
    return $self->run($session, "ALTER TABLE $table->{name} DROP COLUMN $column->{name}",
        log_shape_sql($table));
}

sub rename_column
{
    my ($self, $session, $table) = @_;
    return $self->add_column($session, $table) unless @{ $table->{columns} };
    my $column = pick(@{ $table->{columns} });
    my $old = $column->{name};
    $column->{name} = $self->fresh_name('c');
    return $self->run($session, "ALTER TABLE $table->{name} RENAME COLUMN $old TO $column->{name}",
        log_shape_sql($table));
}

my %wider = (
    'smallint' => 'integer', 'integer' => 'text', 'real' => 'double precision',
    'character varying(60)' => 'text',
    'json' => 'text', 'uuid' => 'text', 'integer[]' => 'text[]', 'timestamp' => 'text');

sub change_type
{
    my ($self, $session, $table) = @_;
    my ($column) =
        grep { !$_->{generated} && !$_->{role} && $wider{ $_->{type} } } @{ $table->{columns} };
    return $self->rename_column($session, $table) unless $column;
    $column->{type} = $wider{ $column->{type} };
    return $self->run($session,
        "ALTER TABLE $table->{name} ALTER COLUMN $column->{name} DROP DEFAULT,"
            . " ALTER COLUMN $column->{name} TYPE $column->{type}"
            . " USING $column->{name}::$column->{type}",
        log_shape_sql($table));
}

sub identity
{
    my ($self, $session, $table) = @_;
    my $one = $table->{parts} ? pick(map { $_->{name} } @{ $table->{parts} }) : $table->{name};
    return $self->run($session,
        "ALTER TABLE $one REPLICA IDENTITY " . pick(qw(FULL FULL DEFAULT NOTHING)),
        "CALL work.log_shape(" . literal($one) . ')')
        if $table->{parts} || $table->{unique} || chance(0.7);
    my $index = $self->fresh_name('i');
    $table->{unique} = 1;
    return $self->run(
        $session, "ALTER TABLE $table->{name} ALTER COLUMN id SET NOT NULL",
        "CREATE UNIQUE INDEX $index ON $table->{name} (id)",
        "ALTER TABLE $table->{name} REPLICA IDENTITY USING INDEX $index", log_shape_sql($table));
}

sub attach
{
    my ($self, $session, $table) = @_;
    return $self->identity($session, $table) unless $table->{parts};
    my ($part) = (detached($table), pick(@{ $table->{parts} }));
    my $sql =
        $part->{attached}
        ? "DETACH PARTITION $part->{name}"
        : "ATTACH PARTITION $part->{name} FOR VALUES $part->{bounds}";
    $part->{attached} = !$part->{attached};
    return $self->run($session, "ALTER TABLE $table->{name} $sql", log_shape_sql($table),
        'CALL work.log_shape(' . literal($part->{name}) . ')');
}

sub detached
{
    return grep { !$_->{attached} } @{ $_[0]{parts} // [] };
}

# A detached partition receives no rows through its parent, so it is changed directly or attached again.
sub change_detached
{
    my ($self, $session, $table) = @_;
    my ($part) = detached($table);
    return $self->attach($session, $table) if chance(0.5);
    my %alone = (%$table, name => $part->{name});
    return chance(0.3) ? $self->delete_rows($session, \%alone) : $self->touch($session, \%alone);
}

sub storage
{
    my ($self, $session, $table) = @_;
    my ($column) = grep { $_->{type} =~ /^(text|jsonb?|bytea|.*\[\])$/ && !$_->{generated} }
        @{ $table->{columns} };
    return $self->identity($session, $table) unless $column;
    return $self->run($session,
        "ALTER TABLE $table->{name} ALTER COLUMN $column->{name} SET STORAGE "
            . pick(qw(EXTERNAL EXTENDED MAIN)));
}

sub rename_table
{
    my ($self, $session, $table) = @_;
    my $new = $self->fresh_name('r');
    delete $session->{tables}{ $table->{name} };
    my $old = $table->{name};
    $table->{name} = ($table->{schema} || 'public.') . $new;
    $session->{tables}{ $table->{name} } = $table;
    return $self->run($session, "ALTER TABLE $old RENAME TO $new", log_shape_sql($table));
}

# Creates a rule with targets, a condition and some of the columns, unless no column is suitable.
sub watch_target_sql
{
    my ($table, $name) = @_;
    my ($target) = grep { ($_->{role} // '') eq 'target' } @{ $table->{columns} };
    my ($n) = grep { ($_->{role} // '') eq 'n' } @{ $table->{columns} };
    return unless $target && $n;
    my @operations = grep { chance(0.8) } qw(create update delete);
    my @columns = grep { chance(0.6) } 'id', map { unquoted($_->{name}) } @{ $table->{columns} };
    my $list =
        @columns && chance(0.5) ? 'ARRAY[' . join(',', map { literal($_) } @columns) . ']' : 'NULL';
    return sprintf "CALL work.watch_target(%s, %s, %s, '%s', '{%s}', %s)", literal($name),
        literal(unquoted($target->{name})),
        literal(unquoted($n->{name})), pick(qw(always positive small)),
        join(',', @operations ? @operations : 'update'), $list;
}

sub watch
{
    my ($self, $session, $table) = @_;
    my @names = ($table->{name}, map { $_->{name} } @{ $table->{parts} // [] });
    my ($sql) = watch_target_sql($table, pick(@names));
    return $self->run($session, $sql, log_shape_sql($table)) if $sql && chance(0.5);
    return $self->run($session,
        'CALL work.' . pick(qw(watch watch unwatch)) . '(' . literal(pick(@names)) . ')',
        log_shape_sql($table));
}

sub alter_row_type
{
    my ($self, $session) = @_;
    my $name = "row_$session->{name}";
    my $sql;
    if (@{ $session->{attributes} } > 4)
    {
        my $old = splice @{ $session->{attributes} }, rand @{ $session->{attributes} }, 1;
        $sql = 'DROP ATTRIBUTE ' . ($old =~ s/ .*//r);
    }
    else
    {
        my $new = 'n'
            . ++$self->{number} . ' '
            . pick('numeric', 'text', 'boolean', 'bytea', 'jsonb', 'text[]', 'date');
        push @{ $session->{attributes} }, $new;
        $sql = "ADD ATTRIBUTE $new";
    }
    return $self->run($session, "ALTER TYPE $name $sql", "CALL work.log_row_type('$name')");
}

my @shapes = (
    \&add_column, \&add_column, \&drop_column, \&rename_column, \&change_type, \&identity,
    \&identity, \&attach, \&storage, \&rename_table, \&watch, \&watch);

sub change_shape
{
    my ($self, $session, $table) = @_;
    return pick(@shapes)->($self, $session, $table);
}

1;
